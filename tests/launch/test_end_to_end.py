"""Whole federations, as a user starts them: a real server, real clients, real data."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.records import total_steps

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
LAUNCH = [sys.executable, "-m", "fl_dp.cli"]


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [*LAUNCH, "--out", "out", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def rounds(folder: Path) -> list[dict[str, Any]]:
    file = folder / "out" / "rounds.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def processes_of(folder: Path) -> list[int]:
    """Living processes whose environment names the run's folder."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder / "out").encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def wait_for(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def test_the_default_run_learns_within_its_budget_and_leaves_everything(tmp_path):
    code, out, err = finish(start(tmp_path))
    assert code == 0, err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["accuracy"] >= 0.85
    assert 0 < summary["epsilon"] <= 3.0
    assert [line["round"] for line in rounds(tmp_path)] == [1, 2, 3]
    assert all(f"round {number}/3  eps " in out for number in (1, 2, 3))
    for name in ("config.toml", "model.pt", "logs/server.log", "ledgers/ledger.sqlite"):
        assert (tmp_path / "out" / name).stat().st_size > 0, name
    assert processes_of(tmp_path) == []


def test_two_launches_at_once_do_not_disturb_each_other(tmp_path):
    first = start(tmp_path / "a", "3", "2", "2", "1")
    second = start(tmp_path / "b", "2", "2", "2", "1")
    assert [finish(first)[0], finish(second)[0]] == [0, 0]
    states = [client["status"] for client in rounds(tmp_path / "a")[0]["clients"].values()]
    assert sorted(states) == ["idle", "trained", "trained"]
    assert set(rounds(tmp_path / "b")[0]["clients"]) == {"0", "1"}


@pytest.mark.parametrize("simulate", [False, True], ids=["deployed", "simulated"])
def test_ctrl_c_in_a_round_leaves_no_process(simulate, tmp_path):
    words = ["--simulate"] if simulate else []
    process = start(tmp_path, *words, "--set", "round-timeout=60", "2", "2", "2", "50")
    wait_for(lambda: rounds(tmp_path), 120)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "interrupted" in err
    assert time.monotonic() - begun < 5
    assert processes_of(tmp_path) == []


def test_a_spent_budget_ends_this_run_and_the_next_on_the_same_ledger(tmp_path):
    words = shlex.split(f"--ledger {tmp_path}/ledgers 2 2 2 8 64 64 0.5 2.0 1.0 1.0")
    code, out, err = finish(start(tmp_path / "a", *words, "--set", "local-epochs=1"))
    assert code == 3, err
    assert "privacy budgets are spent" in out
    lines = rounds(tmp_path / "a")
    assert 0 < len(lines) < 8
    assert max(client["epsilon"] for line in lines for client in line["clients"].values()) <= 1.0
    assert finish(start(tmp_path / "b", *words))[0] == 3
    assert rounds(tmp_path / "b") == []


def test_simulated_clients_are_sampled(tmp_path):
    code, _, err = finish(start(tmp_path, "--simulate", "50", "10", "10", "2"))
    assert code == 0, err
    with Ledger.open(tmp_path / "out" / "ledgers" / "ledger.sqlite") as ledger:
        assert len(ledger.accounts()) == 50
    for line in rounds(tmp_path):
        states = [client["status"] for client in line["clients"].values()]
        assert states.count("trained") == 10


def test_a_killed_client_is_noted_and_goes_on_where_its_ledger_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # as many rounds as it takes until the client is back, also where that takes long
    process = start(tmp_path, "--set", "round-timeout=60", "3", "2", "3", "30")
    wait_for(lambda: rounds(tmp_path), 120)
    steps = rounds(tmp_path)[0]["clients"]["1"]["steps"]
    started = json.loads((tmp_path / "out" / "clients" / "starts.json").read_text())
    (victim,) = {
        event["pid"]
        for event in map(json.loads, Path(started[1]["events"]).read_text().splitlines())
        if event["client"] == "1"
    }
    os.kill(victim, signal.SIGKILL)
    restarted = join_again(tmp_path, started[1])
    code, out, err = finish(process)
    restarted.send_signal(signal.SIGINT)
    assert restarted.wait(10) == 130
    assert code == 0, err
    assert "client 1 stopped (signal 9); going on without it" in out
    states = [line["clients"]["1"] for line in rounds(tmp_path)]
    assert states[1]["status"] == "failed"
    assert states[-1]["status"] == "trained"
    with Ledger.open(tmp_path / "out" / "ledgers" / "ledger.sqlite") as ledger:
        assert total_steps(ledger.spent("digits, part 1/3 (iid, seed 0)")) == states[-1]["steps"] > steps


def join_again(folder: Path, start: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Client 1 by hand, as its operator would bring it back."""
    command = [sys.executable, PROJECT / "client.py", "--server", start["server"], "--kit", start["kit"]]
    settings = ["--config", folder / "out" / "clients" / "1.toml"]
    return subprocess.Popen([*command, *settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_run_in_which_no_client_trains_is_no_success(tmp_path):
    ledgers = str(tmp_path / "ledgers")
    code, _, err = finish(
        start(tmp_path / "one", "--ledger", ledgers, "--set", "rounds=1", "--set", "privacy=off")
    )
    assert code == 0, err
    code, _, err = finish(start(tmp_path / "two", "--ledger", ledgers, "--set", "round-timeout=30"))
    assert code == 1
    assert "trained without protection before; no epsilon holds for them any more" in err
    assert "server.log" in err


def test_a_damaged_ledger_is_a_wrong_argument_and_nothing_is_left(tmp_path):
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    (ledgers / "ledger.sqlite").write_text("no ledger")
    code, _, err = finish(start(tmp_path, "--ledger", str(ledgers)))
    assert code == 2
    assert "ledger.sqlite" in err
    assert not (tmp_path / "out").exists()
