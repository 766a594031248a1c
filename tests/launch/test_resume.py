"""A simulation that is killed, at any moment, and resumed gives what one gives that was not."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.federation.server.state import STATE, read_state
from fl_dp.records import Entry

pytestmark = pytest.mark.slow

ROUNDS = 16


def launch(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "fl_dp.cli", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def kill_after(process: "subprocess.Popen[str]", folder: Path, least: int) -> None:
    """Kill the process, and all of its group, at some moment after `least` rounds: mostly within one."""
    deadline = time.monotonic() + 90
    while rounds_kept(folder) < least:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    time.sleep(random.uniform(0, 0.3))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def rounds_kept(folder: Path) -> int:
    return read_state(folder / STATE).rounds if (folder / STATE).exists() else -1


def rounds(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


def spent(folder: Path) -> dict[str, tuple[Entry, ...]]:
    with Ledger.open(folder / "ledgers" / "ledger.sqlite") as ledger:
        return {account.dataset: account.spent() for account in ledger.accounts()}


def without_results(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    results = ("accuracy", "loss", "metrics")
    return [{key: value for key, value in one.items() if key not in results} for one in lines]


def last_paid(folder: Path) -> int:
    with Ledger.open(folder / "ledgers" / "ledger.sqlite") as ledger:
        return max(paid.server_round for account in ledger.accounts() for paid in account.rounds)


def test_a_killed_and_resumed_run_is_the_run_that_was_not_killed(tmp_path):
    """Two copies of it go on from the round that was begun: that one is the same computation, and not paid
    for twice. What is paid for later has random numbers of its own in each, and is otherwise the same.
    """
    broken, straight = tmp_path / "broken", tmp_path / "straight"
    settings = ["--set", "sampling=poisson", "--set", "partition=dirichlet", "--set", "partition-alpha=2"]
    settings += [
        "--set",
        "momentum=0.5",
        "--set",
        "optimizer-state=keep",
        "--set",
        "local-algorithm=scaffold",
        "--set",
        "weights=uniform",
    ]
    first = launch("--simulate", "--out", str(broken), *settings, "12", "6", "6", str(ROUNDS))
    kill_after(first, broken, 1)
    shutil.copytree(
        broken, straight
    )  # both have the choice of clients, and the keys of a round that was begun
    alike = max(rounds_kept(broken), last_paid(broken))
    whole = launch("--resume", str(straight))
    kill_after(launch("--resume", str(broken)), broken, random.randrange(2, ROUNDS - 4))
    code, out, err = finish(launch("--resume", str(broken)))
    assert code == 0, err
    assert "resuming after round" in out
    code, _, err = finish(whole)
    assert code == 0, err
    assert rounds(broken)[:alike] == rounds(straight)[:alike]
    assert without_results(rounds(broken)) == without_results(rounds(straight))
    assert rounds(broken)[-1]["loss"] != rounds(straight)[-1]["loss"]
    assert spent(broken) == spent(straight)
    for folder in (straight, broken):
        assert not (folder / STATE).exists()
        assert not (folder / "clients" / "secret").exists()
        assert not (folder / "clients" / "kept").exists()
