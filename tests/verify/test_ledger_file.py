"""A ledger that was made to do harm ends in an error, soon; nothing in it is run."""

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.event_log import FORMAT
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.verify import ledger_file
from fl_dp.verify.ledger_file import kept_rows, read_ledger

HEADER = f"PRAGMA application_id = {FORMAT.application_id}; PRAGMA user_version = {FORMAT.version};"
ENDLESS = "WITH RECURSIVE endless(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM endless)"

WITHOUT_TRIGGERS = "DROP TRIGGER events_stay; DROP TRIGGER events_remain;"


def made(path: Path, script: str, *, page_size: int = 4096) -> Path:
    with sqlite3.connect(path) as file:
        file.executescript(f"PRAGMA page_size = {page_size}; {HEADER} {script}")
    file.close()
    return path


def of_rows(count: int) -> str:
    """That many rows of 20 bytes, in the schema of ledgers."""
    return (
        f"{FORMAT.tables} WITH RECURSIVE n(id) AS "
        f"(SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {count})"
        " INSERT INTO events SELECT id, 'content', 'hash' FROM n;"
    )


@pytest.mark.parametrize(
    "script",
    [
        f"CREATE VIEW events AS {ENDLESS} SELECT id, 'x' AS content, 'y' AS hash FROM endless;",
        f"{FORMAT.tables} CREATE VIEW more AS {ENDLESS} SELECT id FROM endless;",
        f"{FORMAT.tables} CREATE TABLE more (id);",
        f"{FORMAT.tables} CREATE INDEX by_hash ON events (hash);",
        f"{FORMAT.tables} CREATE TRIGGER more BEFORE INSERT ON events BEGIN SELECT randomblob(1e9); END;",
        f"{FORMAT.tables} {WITHOUT_TRIGGERS} CREATE VIEW more AS {ENDLESS} SELECT id FROM endless;",
        "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, hash TEXT AS "
        "(printf('%1000000000d', id)));",
        "CREATE TABLE other (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT, hash TEXT);",
    ],
)
def test_only_a_ledgers_tables_are_read(script: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a ledger: it has other tables"):
        kept_rows(made(tmp_path / "ledger.sqlite", script))


def test_a_schema_of_another_number_is_refused_by_it(tmp_path: Path) -> None:
    """Of a newer one nobody here knows what its entries mean, though its tables look the same."""
    newer = FORMAT.version + 1
    path = made(tmp_path / "ledger.sqlite", f"{of_rows(3)} PRAGMA user_version = {newer};")
    with pytest.raises(
        ConfigError, match=f"has schema {newer}, and this fl_dp reads schema {FORMAT.version}"
    ):
        kept_rows(path)
    export = tmp_path / "ledger.json"
    export.write_text('{"format": "fl-dp ledger 2", "entries": 0, "rows": []}')
    with pytest.raises(
        ConfigError, match="has format 'fl-dp ledger 2', and this fl_dp reads 'fl-dp ledger 1'"
    ):
        read_ledger(export)


def test_a_ledger_that_has_paid_is_one_with_the_secrets_that_lie_beside_its_entries(tmp_path: Path) -> None:
    """A sketch of the records, and a round that may be repeated, each make a table of their own."""
    path = tmp_path / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        ledger.register("mine", "contents", 100, digests=lambda: [bytes(32)])
        ledger.reserve_all(
            [
                ReservationRequest(
                    "mine", "a run", 1, Entry(0.1, 1.0, 5), Budget(8.0, 1e-5), inputs="of the round"
                )
            ]
        )
        rows = ledger.rows()
    with sqlite3.connect(path) as file:
        names = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    file.close()
    assert {"secret", "payment_keys"} <= names
    assert kept_rows(path) == (rows, len(rows))


def test_a_ledger_of_any_size_below_the_bound_is_read(tmp_path: Path) -> None:
    path = made(tmp_path / "ledger.sqlite", of_rows(100_000))
    assert path.stat().st_size > 2**20, "longer than one row may be"
    rows, count = kept_rows(path)
    assert (len(rows), count, rows[-1]) == (100_000, 100_000, (100_000, "content", "hash"))


@pytest.mark.parametrize(
    "row", ["(1, x'00', 'h')", "(1, hex(zeroblob(2000000)), 'h')", "(1, CAST(x'ff' AS TEXT), 'h')"]
)
def test_what_is_no_text_is_refused(row: str, tmp_path: Path) -> None:
    script = f"{FORMAT.tables} {WITHOUT_TRIGGERS} INSERT INTO events VALUES {row};"
    words = r"cannot be read as a ledger \(\w+\); its owner can give an export"
    with pytest.raises(ConfigError, match=words):
        kept_rows(made(tmp_path / "ledger.sqlite", script))


def test_the_work_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "ledger.sqlite", of_rows(20_000))
    monkeypatch.setattr(ledger_file, "MOST_SECONDS", 0.0)
    with pytest.raises(ConfigError, match="it took too long"):
        kept_rows(path)
    monkeypatch.setattr(ledger_file, "MOST_LEDGER", 100)
    with pytest.raises(ConfigError, match=r"longer than .* MiB"):
        kept_rows(path)


def lead_down(content: bytearray, page: int, child: int, size: int) -> None:
    """Have each place of an inner page of a table, where the number of a child stands, name the same one."""
    start = (page - 1) * size
    cells = int.from_bytes(content[start + 3 : start + 5], "big")
    for at in range(start + 12, start + 12 + 2 * cells, 2):
        place = start + int.from_bytes(content[at : at + 2], "big")
        content[place : place + 4] = child.to_bytes(4, "big")
    content[start + 8 : start + 12] = child.to_bytes(4, "big")


def test_pages_that_lead_back_give_no_rows_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of eight pages names the next one in all its places: a small file of some 10 ** 12 rows."""
    path, size = made(tmp_path / "ledger.sqlite", of_rows(60_000), page_size=512), 512
    with sqlite3.connect(path) as file:
        (root,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
    file.close()
    content = bytearray(path.read_bytes())
    inner = [at // size + 1 for at in range(0, len(content), size) if at and content[at] == 5]
    chain = [root, *[page for page in inner if page != root][:8]]
    for page, child in pairwise(chain):
        lead_down(content, page, child, size)
    path.write_bytes(content)
    monkeypatch.setattr(ledger_file, "MOST_SECONDS", 20.0)
    with pytest.raises(ConfigError, match="its pages lead back to one another"):
        kept_rows(path)


def journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def with_a_write_ahead_log(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:18] + b"\2\2" + content[20:])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: journal(path).touch(), "its last transaction did not end"),
        (lambda path: journal(path).symlink_to("nowhere"), "did not end"),
        (with_a_write_ahead_log, "write-ahead"),
        (lambda path: path.symlink_to(path.rename(path.with_name("real"))), "a link"),
    ],
)
def test_no_other_file_is_looked_into(
    spoil: Callable[[Path], object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "_PAUSE", 0.0)
    path = made(tmp_path / "ledger.sqlite", of_rows(10))
    spoil(path)
    with pytest.raises(ConfigError, match=words):
        kept_rows(path)
