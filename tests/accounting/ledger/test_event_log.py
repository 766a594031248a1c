"""A ledger that was written in the past opens, and says what it said then: a ledger is somebody's history."""

import json
import sqlite3
from pathlib import Path

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.accounts import NotedBudget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import LedgerError
from fl_dp.records import STEADY_ROWS, Entry

SCHEMA = """
    PRAGMA application_id = 1718379632;
    PRAGMA user_version = 1;
    CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, hash TEXT NOT NULL);
    CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
    CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""
TIME = '"time": "2026-01-01T00:00:00+00:00"'
BUDGET = '"budget": {"accountant": "rdp", "delta": 1e-05, "epsilon": 3.0}, "dataset": "a"'
# The exact text of entries, and their hashes, in the format's first form.
ROWS = [
    (
        f'{{"cut": "", "dataset": "a", "fingerprint": "f", "kind": "register", "public_size": 1000, '
        f'"sketch": "", "source": "a", {TIME}}}',
        "cdf654de2a1d460fd47f4d4dd166c440f828b4908ade83db87988b2a11d43281",
    ),
    (
        f'{{"arithmetic": "steady-rows", {BUDGET}, "inputs": "i", "kind": "reserve", '
        f'"noise_multiplier": 1.5, "round": 1, "run": "r", "sample_rate": 0.05, "steps": 4, {TIME}}}',
        "013860e2e5772dea22915f1b8492036d54a1cbdc526885c7a4a4fc0c84b2bc87",
    ),
    (
        f'{{"dataset": "a", "kind": "commit", "reserved": 2, {TIME}}}',
        "0ad3eb9cd1cfa8e4c58e1e354ffbdeec8d7ed849f5786c113715beadfe657f85",
    ),
    (
        f'{{"arithmetic": "steady-rows", "dataset": "a", "kind": "expose", "round": 2, "run": "r", '
        f'"sample_rate": 0.1, "steps": 7, {TIME}}}',
        "495e44f5d6e326a399f57e1f5006a96fd9f9219847c41b121d757f9182720bb1",
    ),
    (
        f'{{"dataset": "a", "kind": "retire", {TIME}}}',
        "3ba0242fd6c106959694e506fe0422cda314c36a6aa7697db9fb9681db1cd859",
    ),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / "old.sqlite")
    connection.executescript(SCHEMA)
    connection.executemany("INSERT INTO events (content, hash) VALUES (?, ?)", ROWS)
    connection.commit()
    connection.close()
    return tmp_path / "old.sqlite"


def test_a_ledger_of_the_first_format_opens_and_goes_on(path: Path) -> None:
    with Ledger.open(path) as ledger:
        (account,) = ledger.accounts()
        assert ledger.register("a", "f", 1000) == 1000
        assert ledger.reserve("a", "s", 1, Entry(0.05, 1.5, 2), Budget(3.0, 1e-5, "rdp")).entry.steps == 2
    assert account.spent() == (Entry(0.05, 1.5, 4), Entry(0.1, 0.0, 7))
    assert [(paid.committed, paid.inputs) for paid in account.rounds] == [(True, "i"), (False, "")]
    assert account.last_budget() == NotedBudget(3.0, 1e-5, "rdp")
    assert [paid.arithmetic for paid in account.rounds] == [STEADY_ROWS, STEADY_ROWS]
    assert (account.private, account.retired) == (False, "2026-01-01T00:00:00+00:00")


def test_what_is_written_today_has_the_form_of_then(tmp_path: Path) -> None:
    """Key for key; only the time differs."""
    with Ledger.open(tmp_path / "new.sqlite") as ledger:
        ledger.register("a", "f", 1000)
        wall = Budget(3.0, 1e-5, "rdp")
        (paid,) = ledger.reserve_all([ReservationRequest("a", "r", 1, Entry(0.05, 1.5, 4), wall, inputs="i")])
        ledger.commit(paid)
        ledger.reserve("a", "r", 2, Entry(0.1, 0.0, 7), None)
        ledger.retire("a")
        rows = ledger.rows()
    then = [json.loads(content) for content, _ in ROWS]
    assert [{**json.loads(row.content), "time": then[0]["time"]} for row in rows] == then
    connection = sqlite3.connect(tmp_path / "new.sqlite")
    found = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    connection.close()
    assert found == [1718379632, 1]


@pytest.mark.parametrize("name", ["application_id", "user_version"])
def test_another_programs_file_and_another_format_are_refused(path: Path, name: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {name} = 7")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger that this fl_dp can read"):
        Ledger.open(path)


def test_a_file_that_was_written_without_a_new_entry_is_as_sound_as_before(path: Path) -> None:
    """As by a VACUUM while it is open here."""
    with Ledger.open(path) as ledger:
        before = ledger.accounts()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE other (x)")
        connection.commit()
        connection.close()
        assert ledger.accounts() == before
