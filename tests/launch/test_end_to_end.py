"""Whole federations, as a user starts them: a real server, real clients, real data."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launch.commands import fl_dp, json_lines, processes_with, steps_paid, trained, wait_for

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.data.sources.digits import load_digits
from fl_dp.records import total_steps

PROJECT = Path(__file__).parents[2]
BOTH_WAYS = pytest.mark.parametrize("words", [[], ["--simulate"]], ids=["deployed", "simulated"])


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    folder.mkdir(exist_ok=True)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-m", "fl_dp", "run", "--out", "out", *words], cwd=folder, **pipes
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def rounds(folder: Path) -> list[dict]:
    return json_lines(folder / "out" / "rounds.jsonl")


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
    assert processes_with(str(tmp_path / "out")) == []


@pytest.mark.slow
def test_two_launches_at_once_do_not_disturb_each_other(tmp_path):
    first = start(tmp_path / "a", "3", "2", "2", "1")
    second = start(tmp_path / "b", "2", "2", "2", "1")
    assert [finish(first)[0], finish(second)[0]] == [0, 0]
    states = [client["status"] for client in rounds(tmp_path / "a")[0]["clients"].values()]
    assert sorted(states) == ["idle", "trained", "trained"]
    assert set(rounds(tmp_path / "b")[0]["clients"]) == {"0", "1"}


@pytest.mark.slow
@BOTH_WAYS
def test_ctrl_c_in_a_round_leaves_no_process(words, tmp_path):
    process = start(tmp_path, *words, "--set", "round-timeout=600", "2", "2", "2", "500")
    wait_for(lambda: rounds(tmp_path))
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "interrupted" in err
    assert processes_with(str(tmp_path / "out")) == []


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_killed_client_is_noted_and_goes_on_where_its_ledger_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # as many rounds as it takes until the client is back, also where that takes long
    process = start(tmp_path, "--set", "round-timeout=60", "3", "2", "3", "30")
    wait_for(lambda: rounds(tmp_path))
    steps = rounds(tmp_path)[0]["clients"]["1"]["steps"]
    client = json.loads((tmp_path / "out" / "clients" / "starts.json").read_text())[1]
    (victim,) = {event["pid"] for event in json_lines(Path(client["events"])) if event["client"] == "1"}
    os.kill(victim, signal.SIGKILL)
    # client 1 by hand, as its operator would bring it back
    settings = tmp_path / "out/clients/1.toml"
    words = ["--server", client["server"], "--kit", client["kit"], "--config", settings]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    restarted = subprocess.Popen([sys.executable, PROJECT / "client.py", *words], **silent)
    code, out, err = finish(process)
    restarted.send_signal(signal.SIGINT)
    assert restarted.wait(60) == 130
    assert code == 0, err
    assert "client 1 stopped (signal 9); the run goes on without it" in out
    states = [line["clients"]["1"] for line in rounds(tmp_path)]
    assert states[1]["status"] == "failed"
    assert states[-1]["status"] == "trained"
    with Ledger.open(tmp_path / "out" / "ledgers" / "ledger.sqlite") as ledger:
        assert total_steps(ledger.spent("digits, part 1/3 (iid, seed 0)")) == states[-1]["steps"] > steps


@pytest.mark.slow
def test_a_run_in_which_no_client_trains_is_no_success(tmp_path):
    words = ("--ledger", str(tmp_path / "ledgers"), "--set")
    code, _, err = finish(start(tmp_path / "one", *words, "rounds=1", "--set", "privacy=off"))
    assert code == 0, err
    code, _, err = finish(start(tmp_path / "two", *words, "round-timeout=30"))
    assert code == 1
    assert "trained without protection before; no epsilon holds for them any more" in err
    assert "server.log" in err


@pytest.mark.slow
@BOTH_WAYS
def test_a_run_learns_and_its_predictions_are_what_was_measured(words, tmp_path):
    pytest.importorskip("kymatio")
    out, answers = tmp_path / "run", tmp_path / "out.csv"
    settings = ("features=scatter:1", "model=norm-linear", "rounds=1")
    said = trained("run", *words, "--out", str(out), settings=settings)
    assert "features scatter:1 of all records take 1 MiB" in said
    found = json.loads((out / "summary.json").read_text())
    assert found["metrics"]["accuracy"] > 0.5
    trained("predict", str(out), "--data", "digits", "--out", str(answers))
    test = load_digits("test")
    with answers.open(newline="") as opened:
        told = [int(line["answer"]) for line in csv.DictReader(opened)]
    right = sum(answer == label for answer, label in zip(told, test.y.tolist(), strict=True))
    assert right / len(test) == pytest.approx(found["metrics"]["accuracy"], abs=1e-6)


def files(folder):
    """One file for each of two clients and one for the server, which has test records alone."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for name, split, rows in (("0", "train", 90), ("1", "train", 120), ("server", "test", 40)):
        x = random.normal(size=(rows, 5))
        arrays = {f"x_{split}": x, f"y_{split}": (x[:, 0] > 0).astype(int), "classes": np.arange(2)}
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


@pytest.mark.slow
def test_moved_files_go_on_from_what_they_have_spent(tmp_path):
    ledger = tmp_path / "ledger"

    def run(out, data, *settings):
        words = ("run", "--simulate", "--ledger", str(ledger), "--out", str(tmp_path / out))
        settings = (*settings, f"data=npz:{data}/{{client}}.npz", "clients=2", "rounds=1", "epsilon=1.0")
        return fl_dp(*words, settings=settings)

    first = files(tmp_path / "first")
    begun = run("a", first, "data-name=ward {client}")
    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert f"ledger in {ledger}: what other runs have spent there is counted" in " ".join(
        begun.stdout.split()
    )
    spent = steps_paid(ledger)
    assert list(spent) == ["ward 0", "ward 1"]

    second = first.rename(tmp_path / "second")
    again = run("b", second, "data-name=ward {client}")
    assert again.returncode == 3, again.stdout + again.stderr  # the budget was spent by the first run

    renamed = run("c", second)
    assert renamed.returncode == 1
    logs = "".join(file.read_text() for file in (tmp_path / "c" / "logs").iterdir())
    assert "has these data as ward" in renamed.stdout + renamed.stderr + logs
    assert steps_paid(ledger) == spent
