"""One SQLite file. When a commit returns, it is on the disk, in that one file.

SQLite's rollback journal is beside the file only during a transaction. A write-ahead log would keep the last
commits in a second file: if the ledger were opened by another name, they would be missing.
"""

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fl_dp.accounting.ledger.one_name import (
    FileId,
    real_path,
    refuse_mount_point,
    remove_leftovers,
    sole_name,
    temporary_prefix,
)
from fl_dp.durable_files import private_folder, sync_folder
from fl_dp.errors import LedgerError

_BUSY_SECONDS = 60.0  # another process may be computing an epsilon inside its transaction
_SETTINGS = (
    "synchronous = EXTRA",  # FULL, and the folder is synced once the journal is deleted: that is the commit
    "fullfsync = ON",  # macOS: fsync alone ends in the drive's cache
    "secure_delete = ON",  # what is erased is overwritten
    "temp_store = MEMORY",  # and no copy of it goes to a temporary file
    "cache_spill = OFF",  # only the commit writes the file, so that others can read it until then
)


@dataclass(frozen=True, slots=True)
class Format:
    """How our files are recognised, and the statements that create their tables."""

    application_id: int  # in the file's header
    version: int
    tables: str


class Database:
    """One open file. Every fault of the file, the disk or its permissions is a LedgerError that names it."""

    def __init__(self, path: Path, file: FileId) -> None:
        self.path, self._file = path, file
        with _named(path):
            # mode=rw: a file that has just vanished is an error, not an empty database
            uri = f"{path.as_uri()}?mode=rw"
            self._connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)

    @classmethod
    def open(cls, path: Path, file_format: Format, *, create: bool) -> Self:
        """Open the file at `path`. If nothing is there, it is created (create) or refused.

        A file of another format is refused and never replaced; so is one with several names, or with a
        write-ahead log.
        """
        opened = cls(*_find(path, file_format, create))
        try:
            opened._prepare(file_format)
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        self._connection.close()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement without result rows; returns the number of the row that was inserted last."""
        with _named(self.path):
            return self._connection.execute(statement, values).lastrowid or 0

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The result rows of a statement."""
        with _named(self.path):
            return self._connection.execute(statement, values).fetchall()

    def pragma(self, name: str) -> Any:
        return self.query(f"PRAGMA {name}")[0][0]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within it, all reads see the same state."""
        if self._connection.in_transaction:
            yield
            return
        self.execute("BEGIN")
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that no other process writes in; on disk when it ends, undone if it fails."""
        self._refuse_other_names()
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        finally:
            self._end()

    def _end(self) -> None:
        """Undo what was not committed. After some errors SQLite has already done so."""
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def _prepare(self, file_format: Format) -> None:
        """Check the file's format, and let no commit return before it is on the disk."""
        found = (self.pragma("application_id"), self.pragma("user_version"))
        if found != (file_format.application_id, file_format.version):
            raise LedgerError(
                f"{self.path}: not a ledger that this fl_dp can read (schema {file_format.version}). "
                "Nothing was changed; name another file, or restore this one."
            )
        if self.pragma("journal_mode") != "delete":
            raise LedgerError(
                f"{self.path}: its last entries may be in a second file, the write-ahead log. No entry was "
                "changed. End every process that has it open, then move them into this file with the "
                'statement "PRAGMA journal_mode = DELETE" of sqlite3.'
            )
        for setting in _SETTINGS:
            self.execute(f"PRAGMA {setting}")

    def _refuse_other_names(self) -> None:
        """Refuse a file that has gained or lost a name since it was opened."""
        try:
            found = sole_name(self.path)
        except OSError as error:
            raise LedgerError(f"{self.path}: the ledger cannot be found: {error.strerror}.") from None
        if found != self._file:
            raise LedgerError(
                f"{self.path}: is not the ledger file that was opened; put that one back, or start again "
                "with this one."
            )


def _find(path: Path, file_format: Format, create: bool) -> tuple[Path, FileId]:
    """The file at `path`, created if need be, by its only name; LedgerError if it has several."""
    if path.is_dir():
        raise LedgerError(f"{path}: is a folder; name the ledger's file in it.")
    try:
        if create:
            private_folder(path.parent)
        path = real_path(path)
        if not path.exists():
            if not create:
                raise LedgerError(
                    f"{path}: there is no ledger; name the file that the client reports as its ledger."
                )
            _create(path, file_format)
        refuse_mount_point(path)
        if path.stat().st_nlink > 1:
            remove_leftovers(path)
        return path, sole_name(path)
    except OSError as error:
        raise LedgerError(f"{path}: the ledger cannot be created or opened: {error.strerror}.") from None


def _create(path: Path, file_format: Format) -> None:
    """Create an empty file, whole or not at all. If another process is faster, its file stays."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=temporary_prefix(path))
    os.close(descriptor)
    temporary = Path(name)
    try:
        with _named(path, "created"):
            connection = sqlite3.connect(temporary, isolation_level=None)
            try:
                connection.executescript(
                    f"PRAGMA application_id = {file_format.application_id};"
                    f"PRAGMA user_version = {file_format.version}; {file_format.tables}"
                )
            finally:
                connection.close()
        with suppress(FileExistsError):
            os.link(temporary, path)  # a rename would replace a file that has appeared meanwhile
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def _named(path: Path, done: str = "read or written") -> Iterator[None]:
    """Turn SQLite's errors into LedgerErrors with the file's name and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(
            f"{path}: the ledger cannot be {done} ({error}); until it can, nothing may be trained or sent. "
            f"{_remedy(error)}"
        ) from None


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_BUSY:
        return f"Another process has held it for {_BUSY_SECONDS:g} s: wait for it to end, or end it."
    if code == sqlite3.SQLITE_NOTADB:
        return "If this is not the ledger, name the right file; if it is, restore it from a copy."
    return "Free disk space or fix the file's permissions; if the file is damaged, restore it from a copy."
