"""A durable, append-only, hash-chained log in one SQLite file.

Every row carries the SHA-256 of itself and of the row before, so that a row that was edited or taken
out is found; rows that were cut off the end are found by SQLite's own count of the rows ever made.
This finds accidents and clumsy hands, not somebody who rewrites the whole file.
"""

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.errors import LedgerError

_APPLICATION_ID = 0x666C6470  # "fldp" in the file's header
_SCHEMA_VERSION = 1
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


@dataclass(frozen=True, slots=True)
class Event:
    """One row: its number, from 1 without gaps, and its content, JSON values only."""

    id: int
    content: Content


class EventLog:
    """One open file. Every fault of the file, the disk or its rights is a LedgerError that names it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the log at `path`, made there if nothing is; a file that is no log is never replaced."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _create(path)
            with _named(path):
                log = cls(path, sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None))
                log._prepare()
        except OSError as error:
            raise LedgerError(f"{path}: the ledger cannot be made or opened: {error.strerror}.") from None
        return log

    def close(self) -> None:
        self._connection.close()

    def events(self) -> list[Event]:
        """All events, oldest first, verified: a row that was edited or removed raises LedgerError."""
        with self._snapshot(), _named(self.path):
            rows = self._connection.execute("SELECT id, content, hash FROM events ORDER BY id").fetchall()
            made = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
            ).fetchone()
        previous = ""
        for expected, (number, content, digest) in enumerate(rows, start=1):
            if number != expected or digest != _digest(previous, content):
                raise self._broken(min(number, expected))
            previous = digest
        if len(rows) != (made[0] if made else 0):
            raise self._broken(len(rows) + 1)
        return [Event(number, json.loads(content)) for number, content, _ in rows]

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several reads of one state: without it, a row added in between looks like one removed."""
        if self._connection.in_transaction:
            yield
            return
        with _named(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

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
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def append(self, content: Content) -> int:
        """Add an event and return its number; only inside `writing`."""
        text = json.dumps(content, sort_keys=True, allow_nan=False)
        with _named(self.path):
            last = self._connection.execute("SELECT hash FROM events ORDER BY id DESC LIMIT 1").fetchone()
            cursor = self._connection.execute(
                "INSERT INTO events (content, hash) VALUES (?, ?)",
                (text, _digest(last[0] if last else "", text)),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _prepare(self) -> None:
        """Check whose file it is, and have every commit on disk before it returns."""
        found = tuple(
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if found != (_APPLICATION_ID, _SCHEMA_VERSION):
            self.close()
            raise LedgerError(
                f"{self.path}: not a ledger that this fl_dp can read (schema {_SCHEMA_VERSION}). "
                "Nothing was changed; name another file, or restore this one."
            )
        self._connection.execute("PRAGMA synchronous = FULL")

    def _broken(self, number: int) -> LedgerError:
        return LedgerError(
            f"{self.path}: entry {number} was edited or removed, so what the data have spent is not known "
            "and nothing may be trained on them. Restore the file from a copy."
        )


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
            f"{path}: the ledger cannot be read or written ({error}); nothing was trained. "
            "Free the disk or mend the file's rights; if the file is damaged, restore it from a copy."
        ) from None


def _digest(previous: str, content: str) -> str:
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()
