"""Tables of commands at 80 columns: no line is wider, and no head is cut."""

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.cli.common import run_command
from fl_dp.cli.main import app
from fl_dp.records import Entry
from fl_dp.reporting.table import print_table

LONG = "patients of the hospital, part 3/11 (dirichlet, 0.5, seed 99)"


def printed(columns, rows, width=80, **options):
    file = io.StringIO()
    print_table("A title", columns, rows, console=Console(file=file, width=width), **options)
    return file.getvalue().splitlines()


def test_words_are_broken_to_fit_and_numbers_and_heads_are_not():
    rows = [("a name with several words in it " * 3, "123456789", "12"), ("\u60a3\u8005" * 40, "1", "2")]
    lines = printed(("name", "a long head", "x"), rows, width=28, left=("name",))
    assert lines[0] == "A title"
    assert [line.split() for line in lines[1:3]] == [["name", "a", "long", "x"], ["head"]]
    assert max(map(cell_len, lines)) <= 28
    assert any("123456789  12" in line for line in lines)
    together = "".join("".join(lines[3:]).split())
    assert "\u60a3\u8005" * 5 in together
    assert together.count("\u60a3") == 40


def test_a_table_is_plain_and_takes_no_name_for_markup():
    rows = [("[red]a[/red]", "1"), ("b", "23")]
    assert printed(("word", "number"), rows, left=("word",))[1:] == [
        "word          number",
        "[red]a[/red]       1",
        "b                 23",
    ]


def test_where_numbers_do_not_fit_each_row_is_a_block():
    columns = ("name", *(f"column {k}" for k in range(12)))
    lines = printed(columns, [("a", *("1234567890",) * 12), ("only a note",)])
    assert lines[1].startswith("name: a  column 0: 1234567890  column 1: ")
    assert lines[2].startswith("  column 3: 1234567890")
    assert lines[-1] == "only a note"
    assert max(map(len, lines)) <= 80


def a_ledger(folder: Path) -> Path:
    with Ledger.open(folder / "ledger.sqlite") as ledger:
        ledger.register(LONG, "print", 2000)
        budget = Budget(3.0, 1e-5, "rdp", 4.0)
        request = ReservationRequest(LONG, "a run of a long name", 1, Entry(0.1, 6.0, 5, 8), budget)
        assert not isinstance(ledger.reserve_all([request])[0], Exception)
        ledger.register("other", "print 2", 2000, source="elsewhere")
        ledger.reserve("other", "run", 1, Entry(0.1, 6.0, 5), Budget(3.0, 1e-5, "rdp"))
        return ledger.path


HEADS = {
    "ledger": (
        "unit:",
        "uncommitted:",
        "arithmetic:",
        "total (alone):",
        "last round, UTC:",
        "entry",
        "state",
    ),
    "keys": ("key", "default", "meaning"),
    "plan": ("key", "value", "why"),
    "check": ("client", "records", "rate", "noise", "steps", "before", "epsilon", "rounds"),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_tables_of_commands_fit_80_columns(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    words = {
        "ledger": ["ledger", "show", "--rounds", str(a_ledger(tmp_path))],
        "keys": ["keys"],
        "plan": ["plan"],
        "check": ["check", "3", "3", "3", "2"],
    }[name]
    assert run_command(app, words) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = lines if name in ("ledger", "keys") else _tables(lines)
    assert max(map(cell_len, tables)) <= 80
    together = " ".join(" ".join(lines).split())
    for head in HEADS[name]:
        assert all(word in together for word in head.split())


def _tables(lines):
    """Without the sentences around them, which terminals break."""
    starts = [place for place, line in enumerate(lines) if "  " in line.strip()]
    assert starts
    return [lines[place] for place in starts]
