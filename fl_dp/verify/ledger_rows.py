"""The rows of an untrusted ledger's SQLite file, which may have been made to do harm.

SQLite gets a copy of the bytes and no file: it takes no lock, follows no link, and reads no journal or
write-ahead log beside the ledger. Before the first row is read, the schema must be a ledger's: no foreign
view, trigger or expression is ever run. A file whose pages form a cycle could go on without end: its output
is bounded by its size, and the work by a timeout.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from fl_dp.accounting.ledger.event_log import FORMAT, SECRET
from fl_dp.accounting.ledger.hash_chain import Row
from fl_dp.accounting.ledger.payment_keys import TABLE as PAYMENT_KEYS
from fl_dp.errors import ConfigError
from fl_dp.verify.reading import read_bytes, text, whole

MOST_LEDGER = 2**28  # bytes; a payment takes about 600, so that a thousand rounds of 450 clients fit
MOST_SECONDS = 60.0  # for SQLite; a ledger of that size takes about 5
_MOST_ROW = 2**20  # bytes; our longest, with a sketch of the records, has some 17,000
_STEPS = 10_000  # SQLite's virtual machine steps between two looks at the clock
_LOOKS, _PAUSE = 20, 0.1  # reads of a file that is being written; seconds between them
_WRITE_AHEAD = 2  # version in the header, bytes 18 and 19, of a file that has a write-ahead log
_EXPORT = "its owner can give an export of it: fl-dp ledger export"


def kept_rows(path: Path) -> tuple[list[Row], int]:
    """The rows at one moment, and how many were ever made; ConfigError for anything but a ledger."""
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
    """The bytes while nobody writes them: during a transaction, its journal is beside the file."""
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
    """Before the first byte is read: limit length and time, and trust nothing in it."""
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
        raise ConfigError(f"{path.name} is no ledger: its tables are others than a ledger has.")


def _schema(file: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    rows = file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return [(text(kind), text(name), text(of), " ".join(text(sql).split())) for kind, name, of, sql in rows]


def _rows(file: sqlite3.Connection, path: Path, size: int) -> Iterator[Row]:
    """One row after the other; ConfigError once they have more characters than the file has bytes."""
    for number, content, hashed in file.execute("SELECT id, content, hash FROM events ORDER BY id"):
        size -= len(text(content)) + len(text(hashed)) + 1
        if size < 0:
            raise ConfigError(f"{path.name} is no ledger: its pages lead back to one another.")
        yield Row(whole(number), content, hashed)


def _was_stopped(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
