"""`fl-dp ledger`, as typed: what it prints, what it leaves, and its exit codes."""

import io
import json
import sqlite3
from pathlib import Path

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.cli.common import run_command
from fl_dp.cli.ledger import ledger_app
from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up

BUDGET = Budget(epsilon=3.0, delta=1e-5, accountant="rdp")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.register("digits", "f1", 1000)
        ledger.commit(ledger.reserve("digits", "run-1", 1, Entry(0.05, 1.5, 4), BUDGET))
        ledger.reserve("digits", "run-1", 2, Entry(0.05, 1.5, 4), BUDGET)
    return tmp_path / "ledger.sqlite"


def ledger(*words: object) -> int:
    return run_command(ledger_app, list(map(str, words)))


def test_show_prints_what_was_spent(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert ledger("show", "--rounds", path) == 0
    lines = capsys.readouterr().out.splitlines()
    with Ledger.open(path) as opened:
        exact = BUDGET.epsilon_of(opened.spent("digits"))
    epsilon = rounded_up(exact)
    words = f"digits record in use 2 1 8 {epsilon} 3.00 1e-05 rdp steady-rows {epsilon}".split()
    assert lines[2].split()[: len(words)] == words
    assert lines[5].split() == ["digits", "in", "use", "0.05", "1.5", "8"]
    assert [line.split()[-1] for line in lines[-2:]] == ["committed", "reserved"]
    assert all("run-1" in line for line in lines[-2:])
    assert ledger("show", "--json", path) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    assert (account["epsilon"], account["fingerprint"]) == (exact, "f1")
    assert [paid["committed"] for paid in account["rounds"]] == [True, False]


COMMANDS = pytest.mark.parametrize(
    "words", [["show"], ["verify"], ["export"], ["retire", "digits", "--yes"]], ids=lambda words: words[0]
)


@COMMANDS
def test_each_command_takes_a_runs_folder(words, path, tmp_path, capsys):
    """Or its ledgers': tests/launch/test_ledger_place.py."""
    (tmp_path / "run" / "ledgers").mkdir(parents=True)
    path.rename(tmp_path / "run" / "ledgers" / path.name)
    assert ledger(words[0], tmp_path / "run", *words[1:]) == 0
    said = capsys.readouterr().out
    assert "digits" in said or "4 entries, none edited or removed" in said


@COMMANDS
def test_a_ledger_that_is_not_there_is_not_begun_and_help_is_readable(words, tmp_path, capsys):
    assert ledger(words[0], tmp_path / "absent.sqlite", *words[1:]) == 1
    assert "absent.sqlite" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert ledger(words[0], "--help") == 0
    out = capsys.readouterr().out
    assert ("[required]" in out) == (words[0] == "retire")
    assert "\\" not in out


def test_without_a_path_the_ledger_of_this_machine_s_clients_is_shown(path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(path.parent / "state"))
    assert ledger("show") == 1
    assert "state/fl-dp/ledger/ledger.sqlite: there is no ledger" in capsys.readouterr().err
    with Ledger.open() as opened:
        assert ledger("show") == 0
        assert "ledger.sqlite: no data set is registered yet\n" in capsys.readouterr().out
        opened.register("mine", "f1", 1000)
    assert ledger("show") == 0
    assert "mine" in capsys.readouterr().out


def test_a_broken_ledger_is_named_with_its_entry(path, capsys):
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER events_remain; DELETE FROM events WHERE id = 2")
    connection.close()
    for command in ("show", "verify", "export"):
        assert ledger(command, path) == 1
        assert f"{path}: entry 2 was edited or removed" in capsys.readouterr().err


def test_verify_takes_a_ledger_and_its_export(path, capsys):
    export = path.with_suffix(".json")
    assert ledger("export", "--out", export, path) == 0
    assert capsys.readouterr().out == ""
    assert ledger("verify", path) == ledger("verify", export) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "4 entries" in first
    assert first.split(": ")[1] == second.split(": ")[1]  # the same head
    assert ledger("export", path) == 0  # printed where no file is named
    assert json.loads(capsys.readouterr().out)["entries"] == 4
    assert ledger("export", "--out", path / "x", path) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_verify_finds_an_older_copy(path, capsys):
    older = path.with_name("older.sqlite")
    older.write_bytes(path.read_bytes())
    with Ledger.open(path) as newest:
        newest.reserve("digits", "run-1", 3, Entry(0.05, 1.5, 1), BUDGET)
    assert ledger("export", "--out", path.with_suffix(".json"), path) == 0
    assert ledger("verify", "--continues", path.with_suffix(".json"), path) == 0
    assert ledger("verify", "--continues", path.with_suffix(".json"), older) == 1
    assert "an older copy" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "code"), [("digits\n", 0), ("digit\n", 2), ("", 2)])
def test_retire_asks_for_the_name(typed, code, path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert ledger("retire", path, "digits") == code
    assert "does not undo this" in capsys.readouterr().out
    with Ledger.open(path) as opened:
        assert (opened.accounts()[0].retired is None) == bool(code)


def test_retire_leaves_its_trace(path, capsys):
    assert ledger("retire", "--yes", path, "digit") == 1
    assert "no data set in use is called digit; in use: digits" in capsys.readouterr().err
    assert ledger("retire", "--yes", path, "digits") == 0
    with Ledger.open(path) as opened:
        opened.register("digits", "f1", 1000)
    assert ledger("retire", "--yes", path, "digits") == 0
    assert "it was retired once before" in capsys.readouterr().out
    assert ledger("show", path) == 0
    assert capsys.readouterr().out.count("retired 20") == 2 + 1  # both accounts, and what the first paid for
    assert ledger("verify", path) == 0


def test_show_marks_data_that_were_trained_without_protection(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with Ledger.open(path) as opened:
        opened.commit(opened.reserve("digits", "run-2", 1, Entry(0.05, 0.0, 4), None))
    assert ledger("show", "--rounds", path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[2].split()).startswith("digits record in use, NOT PRIVATE 3 1 12 inf")
    assert [line.split()[-2:] for line in lines if "run-2" in line] == [["4", "committed"]]
    assert all("NOT PRIVATE" in line for line in lines if "run-2" in line)
    assert ledger("show", "--json", path) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    assert (account["private"], account["epsilon"]) == (False, None)
