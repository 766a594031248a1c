"""Ledgers that are handed over: sound, committed to, and with what was really paid."""

import json
import sqlite3
from pathlib import Path

import pytest
from verify.made_run import BUDGET, DELTA, NOISE, RATE, STEPS, MadeRun

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.export import to_export
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.verify.findings import Outcome


@pytest.fixture
def own(made_run: MadeRun, tmp_path: Path) -> MadeRun:
    """With a copy of north's ledger alone, to be changed."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    for file in made_run.ledgers["north"].parent.glob("*"):
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    made_run.ledgers = {"north": folder / "ledger.sqlite"}
    return made_run


def what_differs(run: MadeRun) -> str:
    return " | ".join(f"{one.what} ({one.where})" for one in run.differs(ledgers=True).get("ledgers", []))


def test_one_of_two_ledgers_is_checked_and_the_other_is_missed(own: MadeRun) -> None:
    assert what_differs(own) == ""
    findings = own.check(ledgers=True)["ledgers"].findings
    assert [one.what for one in findings if one.outcome is Outcome.NOT_GIVEN] == [
        "what opens the commitment of client south"
    ]
    assert "1 commitment opened" in findings[-1].what


def test_a_ledger_that_has_grown_since_still_opens(own: MadeRun) -> None:
    with Ledger.open(own.ledgers["north"]) as ledger:
        ledger.reserve("north's data", "another run", 1, (RATE, NOISE), 3, Budget(BUDGET, DELTA))
    assert what_differs(own) == ""


def test_an_export_is_as_good(own: MadeRun, tmp_path: Path) -> None:
    with Ledger.open_existing(own.ledgers["north"]) as ledger:
        rows = ledger.rows()
    path = own.ledgers["north"].parent / "export.json"
    path.write_text(json.dumps(to_export(rows)))
    own.ledgers = {"north": path}
    assert what_differs(own) == ""
    path.write_text(path.read_text().replace('\\"steps\\": 20', '\\"steps\\": 10'))
    assert "its chain is broken" in what_differs(own)


def test_reading_a_ledger_changes_nothing(own: MadeRun) -> None:
    path = own.ledgers["north"]
    before = path.read_bytes(), sorted(path.parent.iterdir())
    assert what_differs(own) == ""
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before


def test_an_edited_entry_breaks_the_chain(own: MadeRun) -> None:
    connection = sqlite3.connect(own.ledgers["north"])
    connection.execute("DROP TRIGGER events_stay")
    connection.execute(
        "UPDATE events SET content = replace(content, '\"steps\": 20', '\"steps\": 10') WHERE id = 2"
    )
    connection.commit()
    connection.close()
    assert "entry 2 was edited" in what_differs(own)


def test_another_salt_opens_nothing(own: MadeRun) -> None:
    path = own.ledgers["north"].parent / "statements.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "salt": "00" * 32}) + "\n")
    assert "the commitment is not that of this salt and head" in what_differs(own)


def test_a_ledger_that_was_written_anew_has_another_head(own: MadeRun) -> None:
    """Whole and sound, with fewer steps: its head is not the one that was committed to."""
    path = own.ledgers["north"]
    path.unlink()
    with Ledger.open(path) as ledger:
        ledger.register("north's data", "north", 640)
        ledger.reserve("north's data", "7001", 1, (RATE, NOISE), STEPS, Budget(BUDGET, DELTA))
    words = what_differs(own)
    assert "the head that was committed to is no entry of this ledger" in words
    assert "20 steps were paid by north's data" in words


def test_a_ledger_of_other_runs_says_nothing_of_this_one(own: MadeRun) -> None:
    own.change_summary(lambda summary: summary.update(run="7002"))
    own.files.statements.unlink()
    assert what_differs(own) == ""
    notes = [one.what for one in own.check(ledgers=True)["ledgers"].findings if one.outcome is Outcome.NOTE]
    assert notes == ["no account of the ledgers has paid for this run"]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"{", b'{"rows": 1}', b"{}" * 9])
def test_what_is_no_ledger_is_a_finding(content: bytes, own: MadeRun) -> None:
    own.ledgers["north"].write_bytes(content)
    assert what_differs(own) != ""
