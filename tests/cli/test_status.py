"""`fl-dp client status`, from a ledger and a journal that rounds have written."""

import json
from dataclasses import replace
from pathlib import Path

from federation.client.sites import PLAN, Site
from flwr.supercore.task_identity import TaskIdentity

from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.federation.client.journal import NAME, journal_folder
from fl_dp.records import LocalUpdate

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # as a client's process has it


def status(folder: Path, *words: str) -> int:
    return run_command(app, ["client", "status", "--ledger", str(folder), *words])


def test_what_is_spent_and_what_came_last_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    site = Site(tmp_path)
    update = site.train()
    assert isinstance(update, LocalUpdate)
    site.train(replace(PLAN, server_round=2, noise_multiplier=1e-9))
    assert status(tmp_path) == 0
    head, spent, last, refusal = capsys.readouterr().out.splitlines()
    assert head == f"ledger {tmp_path / 'ledger.sqlite'}"
    assert spent.startswith("digits, part 0/2 (iid, seed 0): epsilon ")
    assert " of 3.00 at delta 1e-05, by rdp; 3 steps in 1 round" in spent
    assert "round 1 of run run-1: 3 steps, epsilon 0.00 -> " in last
    assert "round 2 of run run-1: declined: the round asks for noise multiplier 1e-09" in refusal.lower()
    assert status(tmp_path, "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["data sets"]
    assert (row["epsilon"], row["budget"], row["steps"]) == (update.epsilon, 3.0, 3)
    assert [row[f"last {what}"]["round"] for what in ("round", "refusal")] == [1, 2]
    monkeypatch.setenv("COLUMNS", "80")
    assert status(tmp_path) == 0
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines()[1:])) <= 80  # but for the ledger's path
    assert "".join(narrow.split()) == "".join(" ".join((head, spent, last, refusal)).split())
    (journal_folder(site.config.ledger) / NAME).unlink()
    assert status(tmp_path) == 0  # the ledger says what it knows
    assert "round 1 of run run-1: 3 steps, answered" in capsys.readouterr().out


def test_where_no_ledger_is_none_is_begun_and_it_is_said_how_the_right_one_is_named(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run_command(app, ["client", "status"]) == 1
    assert "fl-dp client status --ledger FOLDER" in capsys.readouterr().err
    assert status(tmp_path) == 1
    words = f"--ledger {tmp_path}: no ledger in it, ledger.sqlite is missing"
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
