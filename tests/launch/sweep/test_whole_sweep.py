"""A sweep as a user starts it, killed in the middle and gone on with: real runs on digits."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launch.commands import MAIN, trained, wait_for

from fl_dp.accounting.ledger.ledger import Ledger

pytestmark = pytest.mark.slow
SWEEP = """config = "digits.toml"
seeds = [0, 1]
[base]
rounds = 2
local-epochs = 1
[grid]
epsilon = [2, 8]
"""


def test_killed_in_the_middle_it_goes_on_and_runs_nothing_twice(tmp_path):
    (tmp_path / "s.toml").write_text(SWEEP)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen([*MAIN, "sweep", "s.toml", "--jobs", "1"], cwd=tmp_path, env=env)
    folder = tmp_path / "sweeps" / "s"
    second = folder / "runs" / "epsilon=2,seed=1"
    wait_for((second / "rounds.jsonl").exists)
    first.send_signal(signal.SIGINT)
    assert first.wait(120) == 130
    over = folder / "runs" / "epsilon=2,seed=0" / "summary.json"
    before = over.stat().st_mtime_ns
    name = None if (second / "summary.json").exists() else _name(second)
    trained("sweep", "s.toml", "--resume", str(folder), "--jobs", "1", cwd=tmp_path, env=env)
    assert over.stat().st_mtime_ns == before
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["completed"] * 4
    assert all(float(row["epsilon"]) <= float(row["set:epsilon"]) for row in rows)
    assert all(float(row["accuracy"]) > 0.3 for row in rows)
    summary = json.loads((second / "summary.json").read_text())
    assert summary["rounds"] == 2
    assert name in (None, summary["run"])  # the same run went on: its rounds were not paid for twice
    assert all(client["epsilon"] <= 2.0 for client in summary["clients"].values())


def _name(run: Path) -> str | None:
    """The run's name in its ledger."""
    file = run / "ledgers" / "ledger.sqlite"
    if not file.exists():
        return None
    with Ledger.open_existing(file) as ledger:
        return next((paid.run for one in ledger.accounts() for paid in one.rounds), None)
