"""A durable, append-only, hash-chained log in one SQLite file.

Every row carries the hash of itself and of the row before, so that a row that was edited or removed is found.
SQLite's own count of the rows ever made finds rows that were cut off the end.
This finds accidents and clumsy changes. It finds neither somebody who rewrites the whole file nor an older
copy of it; an export that is kept elsewhere does (see `export`).
"""

import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.accounting.ledger.hash_chain import Row, chain_hash, first_broken
from fl_dp.errors import LedgerError

_APPLICATION_ID = 0x666C6470  # "fldp" in the file's header
_SCHEMA_VERSION = 1
_SECRET_BYTES = 32
_BUSY_SECONDS = 60.0  # another process may be computing an epsilon inside its transaction
_SCHEMA = f"""
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_SCHEMA_VERSION};
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        content TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
    CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""

Content = Mapping[str, Any]
_to_json = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Event:
    """One row: its number, from 1 without gaps, and its content, JSON values only."""

    id: int
    content: Content


class EventLog:
    """One open file. Every fault of the file, the disk or its rights is a LedgerError that names it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection
        self._version = 0  # of the file when it was last read; SQLite's begin with 1
        self._seen = (0, "")  # number and hash of the last row that `new_events` has given

    @classmethod
    def open(cls, path: Path, *, create: bool) -> Self:
        """Open the log at `path`. If nothing is there it is made (create), or else refused.

        A file that is no log is refused and never replaced.
        """
        if path.is_dir():
            raise LedgerError(f"{path}: is a folder; name the ledger's file in it.")
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                if not create:
                    raise LedgerError(
                        f"{path}: there is no ledger; name the file that the client says it keeps."
                    )
                _create(path)
        except OSError as error:
            raise LedgerError(f"{path}: the ledger cannot be made or opened: {error.strerror}.") from None
        with _named(path):
            # mode=rw: a file that vanished just now is an error, not an empty data base
            uri = f"{path.absolute().as_uri()}?mode=rw"
            log = cls(path, sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None))
        try:
            log._prepare()
        except LedgerError:
            log.close()
            raise
        return log

    def close(self) -> None:
        self._connection.close()

    def rows(self) -> list[Row]:
        """All rows, oldest first, verified: one that was edited or removed raises LedgerError."""
        with self._snapshot():
            return self._read(0, "")

    def new_events(self) -> list[Event]:
        """The events that were added since the last call, verified; at the first call all.

        If another process has written into the file in between, all earlier ones are verified again.
        """
        with self._snapshot():
            version = self._pragma("data_version")  # another one after every commit of another connection
            number, previous = self._seen
            if version == self._version:
                rows = self._read(number, previous)
            else:
                rows = self._read(0, "")
                if number and (len(rows) < number or rows[number - 1].hash != previous):
                    raise self._broken(number)
                rows = rows[number:]
            self._version = version
        if rows:
            self._seen = (rows[-1].id, rows[-1].hash)
        return [Event(row.id, json.loads(row.content)) for row in rows]

    def forget(self) -> None:
        """Let the next `new_events` give all again: some of those it gave may have been undone."""
        self._seen = (0, "")

    def _read(self, after: int, previous: str) -> list[Row]:
        """The rows after number `after`, whose hash is `previous`.

        Only inside a transaction, so that rows and their count are of one moment: a row that is added between
        the two queries would look like one that was removed.
        """
        with _named(self.path):
            found = self._connection.execute(
                "SELECT id, content, hash FROM events WHERE id > ? ORDER BY id", (after,)
            ).fetchall()
            made = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
            ).fetchone()
        rows = [Row(*row) for row in found]
        broken = first_broken(rows, made[0] if made else 0, after, previous)
        if broken is not None:
            raise self._broken(broken)
        return rows

    def _broken(self, number: int) -> LedgerError:
        return LedgerError(
            f"{self.path}: entry {number} was edited or removed, so what the data have spent is not "
            "known and nothing may be trained on them. Restore the file from a copy."
        )

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several reads of one state."""
        if self._connection.in_transaction:
            yield
            return
        with _named(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that no other process writes in; on disk when it ends, undone if it fails."""
        with _named(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with _named(self.path):
                self._connection.execute("COMMIT")
        finally:
            self._end()

    def append(self, content: Content) -> Event:
        """Add an event; only inside `writing`, and when `new_events` has given all before it."""
        text = _to_json(content)
        number, previous = self._seen
        hashed = chain_hash(previous, text)
        with _named(self.path):
            cursor = self._connection.execute(
                "INSERT INTO events (content, hash) VALUES (?, ?)", (text, hashed)
            )
        assert cursor.lastrowid == number + 1, "new_events comes before append"
        self._seen = (cursor.lastrowid, hashed)
        return Event(cursor.lastrowid, content)

    def secret(self) -> bytes:
        """A random key of this file, made on first use, only inside `writing`. No export holds it."""
        with _named(self.path):
            self._connection.execute("CREATE TABLE IF NOT EXISTS secret (key BLOB NOT NULL)")
            found = self._connection.execute("SELECT key FROM secret").fetchone()
            if found is None:
                found = (secrets.token_bytes(_SECRET_BYTES),)
                self._connection.execute("INSERT INTO secret (key) VALUES (?)", found)
        return bytes(found[0])

    def _end(self) -> None:
        """Undo what was not committed. SQLite has done so itself after some errors."""
        if self._connection.in_transaction:
            with _named(self.path):
                self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        """Check whose file it is, and have every commit on disk before it returns."""
        with _named(self.path):
            found = (self._pragma("application_id"), self._pragma("user_version"))
            if found != (_APPLICATION_ID, _SCHEMA_VERSION):
                raise LedgerError(
                    f"{self.path}: not a ledger that this fl_dp can read (schema {_SCHEMA_VERSION}). "
                    "Nothing was changed; name another file, or restore this one."
                )
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone ends in the drive's cache

    def _pragma(self, name: str) -> Any:
        with _named(self.path):
            return self._connection.execute(f"PRAGMA {name}").fetchone()[0]


def _create(path: Path) -> None:
    """Make an empty log, whole or not at all; another process may win, then its file stays."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(descriptor)
    temporary = Path(name)
    try:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.executescript(_SCHEMA)
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        with suppress(FileExistsError):
            os.link(temporary, path)
        _sync_folder(path.parent)
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: the ledger cannot be made: {error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """SQLite's errors with the file's name and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(
            f"{path}: the ledger cannot be read or written ({error}); until it can, nothing may be "
            f"trained or sent. {_remedy(error)}"
        ) from None


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_BUSY:
        return f"Another process has held it for {_BUSY_SECONDS:g} s: wait for its end, or end it."
    if code == sqlite3.SQLITE_NOTADB:
        return "If this is not the ledger, name the right file; if it is, restore it from a copy."
    return "Free the disk or mend the file's rights; if the file is damaged, restore it from a copy."
