"""Exports: verifiable on their own, and the ledger against them."""

import json
import shutil

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.export import check_continues, read_export, to_export
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.errors import LedgerError
from fl_dp.records import Entry

BUDGET = Budget(epsilon=9.0, delta=1e-5, accountant="rdp")


def fill(path, run="run"):
    with Ledger.open(path) as ledger:
        ledger.register("digits", "f1", 1000)
        ledger.commit(ledger.reserve("digits", run, 1, Entry(0.1, 1.0, 2), BUDGET))
        return ledger.rows()


@pytest.fixture
def rows(tmp_path):
    return fill(tmp_path / "ledger.sqlite")


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_an_export_reads_back_as_it_was(tmp_path, rows):
    assert read_export(write(tmp_path / "e.json", to_export(rows))) == rows
    assert read_export(write(tmp_path / "none.json", to_export([]))) == []


def edit(export):
    export["rows"][1]["content"] = export["rows"][1]["content"].replace('"steps": 2', '"steps": 1')


def cut(export):
    export["rows"].pop()


def cut_and_count(export):
    export["rows"].pop()
    export["entries"] -= 1


@pytest.mark.parametrize(("damage", "number"), [(edit, 2), (cut, 3), (cut_and_count, 2)])
def test_a_damaged_export_is_found(tmp_path, rows, damage, number):
    export = to_export(rows)
    damage(export)
    with pytest.raises(LedgerError, match=f"entry {number} of the export was edited or removed"):
        read_export(write(tmp_path / "e.json", export))


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"rows": []}', '{"rows": [{"id": 1}]}', '{"format": "x", "rows": []}', "\xff\0"]
)
def test_what_is_no_export_is_refused(tmp_path, content):
    (tmp_path / "e.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(LedgerError, match="not an export"):
        read_export(tmp_path / "e.json")
    with pytest.raises(LedgerError, match="cannot be read"):
        read_export(tmp_path / "absent.json")


def test_a_ledger_that_was_restored_from_an_older_copy_is_found(tmp_path, rows):
    path = tmp_path / "ledger.sqlite"
    shutil.copy(path, tmp_path / "backup.sqlite")
    with Ledger.open(path) as newest:
        newest.reserve("digits", "run", 2, Entry(0.1, 1.0, 2), BUDGET)
        exported = newest.rows()
        check_continues(path, exported, rows)  # what was there before still is
    with Ledger.open(tmp_path / "backup.sqlite") as backup, pytest.raises(LedgerError, match="an older copy"):
        check_continues(path, backup.rows(), exported)


def test_a_ledger_that_was_written_anew_is_found(tmp_path, rows):
    """The first entries may be equal, if both were written in one second; here they are."""
    others = [rows[0], *fill(tmp_path / "x", "other run")[1:]]
    with pytest.raises(LedgerError, match="entry 2 is not the one of the export"):
        check_continues(tmp_path / "x", others, rows)
