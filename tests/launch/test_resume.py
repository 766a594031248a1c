"""A simulation that is killed, at any moment, and resumed gives what one gives that was not."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launch.commands import json_lines, wait_for

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.federation.server.state import STATE, read_state

ROUNDS = 16
RESULTS = ("accuracy", "loss", "metrics")


def launch(*words: str) -> "subprocess.Popen[str]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "fl_dp", "run", *words], start_new_session=True, **pipes)


def kill_after(process: "subprocess.Popen[str]", folder: Path, least: int) -> None:
    """Kill the process, and all of its group, at some moment after `least` rounds: mostly within one."""
    wait_for(lambda: process.poll() is not None or rounds_kept(folder) >= least)
    assert process.poll() is None, process.communicate()
    try:
        process.communicate(timeout=random.uniform(0, 0.3))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finish(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


def rounds_kept(folder: Path) -> int:
    return read_state(folder / STATE).rounds if (folder / STATE).exists() else -1


def rounds(folder: Path, *left_out: str) -> list[dict[str, Any]]:
    lines = json_lines(folder / "rounds.jsonl")
    return [{key: line[key] for key in line.keys() - {"seconds", *left_out}} for line in lines]


def accounts(folder: Path) -> list[Any]:
    with Ledger.open(folder / "ledgers" / "ledger.sqlite") as ledger:
        return ledger.accounts()


@pytest.mark.slow
def test_a_killed_and_resumed_run_is_the_run_that_was_not_killed(tmp_path):
    """Two copies of it go on from the round that was begun: that one is the same computation, and not paid
    for twice. What is paid for later has random numbers of its own in each, and is otherwise the same.
    """
    broken, straight = tmp_path / "broken", tmp_path / "straight"
    drawn = ("sampling=poisson", "partition=dirichlet:2")
    kept = ("optimizer-settings=momentum=0.5", "optimizer-state=keep", "local-algorithm=fedprox:0.1")
    settings = [word for one in (*drawn, *kept, "weights=uniform") for word in ("--set", one)]
    first = launch("--simulate", "--out", str(broken), *settings, "12", "6", "6", str(ROUNDS))
    kill_after(first, broken, 1)
    shutil.copytree(broken, straight)  # with the choice of clients, and the keys of a round that was begun
    alike = max(rounds_kept(broken), *(paid.server_round for one in accounts(broken) for paid in one.rounds))
    whole = launch("--resume", str(straight))
    kill_after(launch("--resume", str(broken)), broken, random.randrange(2, ROUNDS - 4))
    assert "resuming after round" in finish(launch("--resume", str(broken)))
    finish(whole)
    assert rounds(broken)[:alike] == rounds(straight)[:alike]
    assert rounds(broken, *RESULTS) == rounds(straight, *RESULTS)
    assert rounds(broken)[-1]["loss"] != rounds(straight)[-1]["loss"]
    spent = [{one.dataset: one.spent() for one in accounts(folder)} for folder in (broken, straight)]
    assert spent[0] == spent[1]
    for folder in (straight, broken):
        assert not (folder / STATE).exists()
        assert not (folder / "clients" / "secret").exists()
        assert not (folder / "clients" / "kept").exists()
