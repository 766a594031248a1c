"""A durable, append-only, hash-chained log in one SQLite file.

Every row carries a hash of itself and of the row before, which reveals a row that was edited or removed.
SQLite's own count of the rows ever made reveals rows that were cut off at the end. This finds accidents and
clumsy changes. It does not find a file that was rewritten as a whole, or an older copy; an export that is
kept elsewhere does (see `export`).
"""

import json
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.accounting.ledger.database import Database, Format
from fl_dp.accounting.ledger.hash_chain import Row, chain_hash, first_broken
from fl_dp.config.files import DAMAGED
from fl_dp.errors import LedgerError
from fl_dp.schema import canonical

_SECRET_BYTES = 32
SECRET = "CREATE TABLE IF NOT EXISTS secret (key BLOB NOT NULL)"  # created on first use
FORMAT = Format(
    application_id=0x666C6470,  # "fldp"
    version=1,
    tables="""
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        content TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
    CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'append only'); END;
    """,
)

Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One row: its number, from 1 without gaps, and its content, JSON values only."""

    id: int
    content: Content


class EventLog:
    """The log in one open file; faults of the file are those of its `Database`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._version = 0  # of the file when it was last read; SQLite's versions start at 1
        self._seen = (0, "")  # number and hash of the last row that `new_events` has returned

    @classmethod
    def open(cls, path: Path, *, create: bool) -> Self:
        """Open the log at `path`, see `Database.open`."""
        return cls(Database.open(path, FORMAT, create=create))

    @property
    def path(self) -> Path:
        return self.database.path

    @property
    def head(self) -> str:
        """The hash of the last row that `new_events` has returned; empty before the first."""
        return self._seen[1]

    def close(self) -> None:
        self.database.close()

    def rows(self) -> list[Row]:
        """All rows, oldest first, verified: one that was edited or removed raises LedgerError."""
        with self.database.snapshot():
            return self._read(0, "")

    def new_events(self) -> list[Event]:
        """The events that were added since the last call, verified; in the first call all.

        If another process has written into the file in between, all earlier ones are verified again.
        """
        with self.database.snapshot():
            # it changes with every commit of another connection
            version = self.database.pragma("data_version")
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
        return [Event(row.id, self._content(row)) for row in rows]

    def _content(self, row: Row) -> Content:
        with suppress(*DAMAGED):
            if isinstance(found := json.loads(row.content), dict):
                return found
        raise self._broken(row.id)

    def forget(self) -> None:
        """Let the next `new_events` return all events again: some that it returned may have been undone."""
        self._seen = (0, "")

    def _read(self, after: int, previous: str) -> list[Row]:
        """The rows after number `after`, whose hash is `previous`.

        Only inside a transaction, so that rows and their count are of one moment: otherwise a row that is
        added between the two queries would look like one that was removed.
        """
        found = self.database.query("SELECT id, content, hash FROM events WHERE id > ? ORDER BY id", (after,))
        made = self.database.query("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        rows = [Row(*row) for row in found]
        broken = first_broken(rows, made[0][0] if made else 0, after, previous)
        if broken is not None:
            raise self._broken(broken)
        return rows

    def _broken(self, number: int) -> LedgerError:
        return LedgerError(
            f"{self.path}: entry {number} was edited or removed, so it is not known what the data have "
            "spent, and nothing may be trained on them. Restore the file from a copy."
        )

    def writing(self) -> AbstractContextManager[None]:
        """A transaction that no other process writes in; on disk when it ends, undone if it fails."""
        return self.database.writing()

    def append(self, content: Content) -> Event:
        """Add an event. Call it only inside `writing`, after `new_events` has returned all before it."""
        text = canonical(content, spaced=True)
        number, previous = self._seen
        hashed = chain_hash(previous, text)
        made = self.database.execute("INSERT INTO events (content, hash) VALUES (?, ?)", (text, hashed))
        assert made == number + 1, "new_events comes before append"
        self._seen = (made, hashed)
        return Event(made, content)

    def secret(self) -> bytes:
        """A random key of this file, created on first use, only inside `writing`. No export holds it."""
        self.database.execute(SECRET)
        found = self.database.query("SELECT key FROM secret")
        if found:
            return bytes(found[0][0])
        made = secrets.token_bytes(_SECRET_BYTES)
        self.database.execute("INSERT INTO secret (key) VALUES (?)", (made,))
        return made
