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
import torch

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.federation.server.state import STATE, read_state
from fl_dp.records import Entry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

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
    out, err = process.communicate(timeout=120)
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


def test_a_killed_and_resumed_run_is_the_run_that_was_not_killed(tmp_path: Path) -> None:
    broken, straight = tmp_path / "broken", tmp_path / "straight"
    settings = ["--set", "sampling=poisson", "--set", "partition=dirichlet", "--set", "partition-alpha=2"]
    first = launch("--simulate", "--out", str(broken), *settings, "12", "6", "6", str(ROUNDS))
    kill_after(first, broken, 0)
    shutil.copytree(broken, straight)  # from here on both have the same secrets
    whole = launch("--resume", str(straight))
    kill_after(launch("--resume", str(broken)), broken, random.randrange(2, ROUNDS - 4))
    code, out, err = finish(launch("--resume", str(broken)))
    assert code == 0, err
    assert "resuming after round" in out
    code, _, err = finish(whole)
    assert code == 0, err
    assert rounds(broken) == rounds(straight)
    assert summary(broken) == summary(straight)
    assert spent(broken) == spent(straight)
    one, other = (torch.load(folder / "model.pt", weights_only=True) for folder in (straight, broken))
    for name, tensor in one.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-6, atol=1e-9)
    for folder in (straight, broken):
        assert not (folder / STATE).exists()
        assert not (folder / "clients" / "secret").exists()
