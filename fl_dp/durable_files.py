"""Files that survive a crash: written whole or not at all, and on the disk when the call returns.

Some can be read only by their owner: logs, and the states that a client keeps, may quote records.

Others may have write access to a run's folder and put a link in a file's place, which leads to any file of
this user. So nothing here writes through a link, unless the user named it.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from fl_dp.errors import AtWorkError, ConfigError

_ANYBODY, _OWNER = 0o666, 0o600  # permissions, before the process's umask
_OWNERS_FOLDER = 0o700
_LOOKS = (0.01, 0.02, 0.05)  # seconds before each retry; together longer than `is_held` holds a lock


def state_folder() -> Path:
    """The folder for persistent state, by the XDG convention."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "fl-dp"


def private_folder(path: Path) -> Path:
    """Create the folder `path`, if missing, for its owner alone. Returns `path`.

    An existing folder keeps its permissions: its owner may have shared it on purpose.
    """
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=_OWNERS_FOLDER, exist_ok=True)
    return path


def open_private(path: Path, *, append: bool = False, follow: bool = False) -> BinaryIO:
    """Open the file for writing; only its owner can then read it, even if it existed before.

    append: keep the old content; else it is truncated. follow: also open a link, such as /dev/stdout, because
    the user named it; otherwise a link raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    descriptor = os.open(path, flags, _OWNER) if follow else _opened_itself(path, flags, _OWNER)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):  # not a terminal
        os.fchmod(descriptor, _OWNER)
    return os.fdopen(descriptor, "ab" if append else "wb")


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, secret: bool = False) -> None:
    """Atomically replace the content of the file `path` by what `write` writes.

    If the process or the machine stops at any moment, `path` holds its old content or all of the new one.
    Only one process at a time may write it. secret: only its owner can read it.
    """
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)  # left by a killed process; or a link or pipe that others put there
    try:
        # O_EXCL: FileExistsError if anything has the name by now, even a link
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(unfinished, flags, _OWNER if secret else _ANYBODY), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # on a full disk others need the room
        raise
    sync_folder(path.parent)


def _opened_itself(path: Path, flags: int, permissions: int = _ANYBODY) -> int:
    """A descriptor of the file itself, never of a link's target; OSError, which says so, for a link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, permissions)
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and links are not followed here", str(path)) from None
        raise


def append_text(path: Path, text: str) -> None:
    """Append all of `text` or nothing; only its owner can read a new file. OSError for a link."""
    descriptor = _opened_itself(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _OWNER)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            _write_all(file, text.encode())
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise
    if not before:
        sync_folder(path.parent)


def _write_all(file: RawIOBase, content: bytes) -> None:
    """A single write may be partial when the disk is nearly full."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]


class NewLines:
    """The lines of a file, each returned once, when it is complete.

    A file that was truncated or replaced is read from its beginning.
    """

    def __init__(self, path: Path, older: Path | None = None, *, from_end: bool = False) -> None:
        """older: where a full file is moved; it may have got more lines before. from_end: skip the lines
        that are there now.
        """
        self.path, self._older = path, older
        self._file = self._offset = 0  # the file's inode
        if from_end:
            self.new()

    def new(self) -> list[bytes]:
        """The lines since the last call, without line ends; none if there is no file. OSError otherwise."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return []
        moved = b""
        with file:
            there = os.fstat(file.fileno())
            if there.st_ino != self._file or there.st_size < self._offset:
                moved = self._moved()
                self._file, self._offset = there.st_ino, 0
            file.seek(self._offset)
            whole, end, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        return (moved + whole + end).split(b"\n")[:-1]

    def _moved(self) -> bytes:
        """What was appended to the file before it was moved."""
        if self._older and self._file:
            with suppress(OSError), self._older.open("rb") as file:
                if os.fstat(file.fileno()).st_ino == self._file:
                    file.seek(self._offset)
                    return file.read()
        return b""


@contextmanager
def exclusive(path: Path, what: str = "another process is at work on this run") -> Iterator[None]:
    """Hold the lock file `path`; AtWorkError, which says `what`, while another process does.

    The system releases the lock when the process ends, however it ends.
    """
    with _lock_file(path) as file:
        if not _locked_soon(file):
            raise AtWorkError(f"{path.parent}: {what}; end it first.")
        yield


def _lock_file(path: Path) -> BinaryIO:
    """Open the file, created if missing; its content is not changed. ConfigError unless it is a plain file.

    Only its owner may open it, because whoever can read a file can hold its lock.
    """
    try:
        descriptor = _opened_itself(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, _OWNER)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be used as a lock: {error.strerror}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{path}: cannot be used as a lock: it is not a regular file.")
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, _OWNER)  # an older fl_dp let others read it
    return os.fdopen(descriptor, "r+b")


def _locked_soon(file: BinaryIO) -> bool:
    """Lock the file; False if another process keeps the lock."""
    for wait in (0.0, *_LOOKS):
        time.sleep(wait)
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file `path` now. Writes nothing; briefly holds a shared lock."""
    try:
        descriptor = _opened_itself(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # no such file, or nothing that can be locked
        return False
    with os.fdopen(descriptor, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait for the lock file `path`, then hold it. ConfigError for a link."""
    with _lock_file(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def version_of(*paths: Path) -> tuple[int, ...]:
    """Numbers that change when one of the files is rewritten; empty while one is missing."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return ()
    return tuple(number for one in found for number in (one.st_mtime_ns, one.st_ino))


def sync_folder(folder: Path) -> None:
    """Sync the folder itself to disk, which makes a new name in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
