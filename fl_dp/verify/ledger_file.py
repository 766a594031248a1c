"""Reads a given ledger, or an export of one. Nothing is written, converted or repaired.

A ledger's SQLite file may have been made to do harm. SQLite gets a copy of the bytes, not the file: it takes
no lock, follows no link, and reads no journal or write-ahead log beside the ledger. Before the first row is
read, the schema must be a ledger's, so that no foreign view, trigger or expression is run. Pages that form a
cycle would never end: the output is bounded by the file's size, and the work by a timeout.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fl_dp.accounting.ledger.accounts import Account, AccountBook
from fl_dp.accounting.ledger.event_log import FORMAT, SECRET, Event
from fl_dp.accounting.ledger.export import FORMAT as EXPORT
from fl_dp.accounting.ledger.files import find_ledger, openings_file
from fl_dp.accounting.ledger.hash_chain import Row, first_broken
from fl_dp.accounting.ledger.payment_keys import TABLE as PAYMENT_KEYS
from fl_dp.clean_text import clean
from fl_dp.config.files import parse_json
from fl_dp.errors import ConfigError, FlDpError, LedgerError
from fl_dp.verify.reading import lines, opened, read_bytes, read_json, table, text, whole

MOST_LEDGER = 2**28  # bytes; a payment takes about 600, so that a thousand rounds of 450 clients fit
MOST_SECONDS = 60.0  # for SQLite; a ledger of that size takes about 5
_MOST_ROW = 2**20  # bytes; our longest row, with a sketch of the records, has about 17,000
_STEPS = 10_000  # SQLite's virtual machine steps between two looks at the clock
_LOOKS, _PAUSE = 20, 0.1  # reads of a file that is being written; seconds between them
_WRITE_AHEAD = 2  # version in the header, bytes 18 and 19, of a file that has a write-ahead log
_EXPORT = "its owner can give an export of it: fl-dp ledger export"
_MOST_OPENING = 4096  # characters in a line
_DAMAGED = (FlDpError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """rows: verified. openings: salt and head, in hex, by the commitment that they open; from the file beside
    the ledger, empty without one.
    """

    path: Path
    rows: tuple[Row, ...]
    openings: dict[str, tuple[str, str]]

    def accounts(self) -> list[Account]:
        """The accounts as they are now. ConfigError if the rows are no ledger's."""
        book = self.book()
        return book.accounts() if book else []

    def book(self, head: str | None = None) -> AccountBook | None:
        """The ledger's contents up to the row whose hash is `head`; None if there is no such row.

        head: "" for before the first row, None for the contents now. ConfigError if the rows are no ledger's.
        """
        rows = self.rows
        if head is not None:
            ends = [0] if head == "" else [row.id for row in rows if row.hash == head]
            if not ends:
                return None
            rows = rows[: ends[0]]
        book = AccountBook()
        for row in rows:
            try:
                book.add(Event(row.id, table(json.loads(row.content))))
            except LedgerError as error:
                raise ConfigError(f"{self.path.name}: {error}") from None
            except _DAMAGED:
                raise ConfigError(f"{self.path.name}: entry {row.id} is not an entry of a ledger.") from None
        return book


def given_ledger(path: Path) -> Path:
    """See `find_ledger`; ConfigError if there is no file."""
    found = find_ledger(path)
    if not found.is_file():
        raise ConfigError(
            f"--ledger {path}: no such file; name a ledger's folder, its file or an export of it."
        )
    return found


def read_ledger(path: Path) -> LedgerFile:
    """The ledger or export; ConfigError if it cannot be read, or if its chain is broken."""
    with opened(path) as file:
        is_export = file.read(1) == b"{"
    rows, made = _exported(path) if is_export else kept_rows(path)
    broken = first_broken(rows, made)
    if broken is not None:
        raise ConfigError(f"{path.name}: entry {broken} was edited, removed or cut off; its chain is broken.")
    openings = openings_file(path)
    return LedgerFile(path, tuple(rows), _openings(openings) if openings.is_file() else {})


def _exported(path: Path) -> tuple[list[Row], int]:
    found = read_json(path)
    try:
        if (wrote := text(table(found)["format"])) != EXPORT:
            raise ConfigError(f"{path.name} has format {clean(wrote)!r}, and this fl_dp reads {EXPORT!r}.")
        rows = [
            Row(whole(one["id"]), text(one["content"]), text(one["hash"]))
            for one in map(table, found["rows"])
        ]
        return rows, whole(found["entries"])
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path.name} is not an export of a ledger ({EXPORT}).") from None


def _openings(path: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for number, line in lines(path):
        where = f"{path.name}, line {number}"
        if len(line) > _MOST_OPENING:
            raise ConfigError(f"{where} is too long.")
        try:
            one = table(parse_json(line, where))
            found[text(one["commitment"])] = text(one["salt"]), text(one["head"])
        except (ValueError, KeyError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{where} is damaged.") from None
    return found


def kept_rows(path: Path) -> tuple[list[Row], int]:
    """The rows at one moment, and how many were ever added; ConfigError for anything but a ledger."""
    content = _at_rest(path)
    if _WRITE_AHEAD in content[18:20]:
        raise ConfigError(f"{path.name} has the write-ahead log of an older fl_dp; {_EXPORT}.")
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
            _bind(file)
            file.deserialize(content)
            _check_version(file, path)
            _check_schema(file, path)
            made = file.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchmany(2)
            return list(_rows(file, path, len(content))), whole(made[0][0]) if made else 0
    except (sqlite3.Error, ValueError, MemoryError) as error:
        if isinstance(error, ConfigError):
            raise
        why = "it took too long" if _was_stopped(error) else type(error).__name__
        raise ConfigError(f"{path.name} cannot be read as a ledger ({why}); {_EXPORT}.") from None


def _at_rest(path: Path) -> bytes:
    """The bytes, read while nobody writes: a transaction keeps its journal beside the file."""
    journal = path.with_name(f"{path.name}-journal")
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE)
        before = path.lstat().st_mtime_ns
        if journal.exists() or journal.is_symlink():
            continue
        content = read_bytes(path, MOST_LEDGER)
        if not journal.exists() and path.lstat().st_mtime_ns == before:
            return content
    raise ConfigError(f"{path.name} is being written, or its last transaction did not end; {_EXPORT}.")


def _bind(file: sqlite3.Connection) -> None:
    """Limit length and time, and trust nothing in the file; to be called before its bytes are given."""
    end = time.monotonic() + MOST_SECONDS
    file.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_ROW)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "temp_store = MEMORY"):
        file.execute(f"PRAGMA {setting}")


def _check_version(file: sqlite3.Connection, path: Path) -> None:
    """Raise ConfigError for another schema version, whose entries may mean something else."""
    version = whole(file.execute("PRAGMA user_version").fetchone()[0])
    if version != FORMAT.version:
        raise ConfigError(
            f"{path.name} has schema {version}, and this fl_dp reads schema {FORMAT.version}; give it to the "
            "fl_dp that wrote it."
        )


def _check_schema(file: sqlite3.Connection, path: Path) -> None:
    """Raise ConfigError for any table, view, trigger or index that our ledgers do not have."""
    with closing(sqlite3.connect(":memory:")) as ours:
        ours.executescript(f"{FORMAT.tables} {SECRET}; {PAYMENT_KEYS};")  # the latter two on first use
        known = _schema(ours)
    found = _schema(file)
    events = next(one for one in known if one[:2] == ("table", "events"))
    if events not in found or not set(found) <= set(known):
        raise ConfigError(f"{path.name} is not a ledger: it has other tables than a ledger.")


def _schema(file: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    rows = file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return [(text(kind), text(name), text(of), " ".join(text(sql).split())) for kind, name, of, sql in rows]


def _rows(file: sqlite3.Connection, path: Path, size: int) -> Iterator[Row]:
    """The rows, one by one; ConfigError once they have more characters than the file has bytes."""
    for number, content, hashed in file.execute("SELECT id, content, hash FROM events ORDER BY id"):
        size -= len(text(content)) + len(text(hashed)) + 1
        if size < 0:
            raise ConfigError(f"{path.name} is not a ledger: its pages lead back to one another.")
        yield Row(whole(number), content, hashed)


def _was_stopped(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
