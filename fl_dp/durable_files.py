"""Files that survive a crash: written whole or not at all, and on the disk when the call returns.

And files for their owner alone: logs may quote records, and so may what a client keeps.

A run's folder may be one that others write in. Whatever is written here goes into a file of that name, and
never through a link that somebody has put in its place, which could lead to any file of whoever runs this.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from fl_dp.errors import AtWorkError, ConfigError

_ANYBODY, _OWNER = 0o666, 0o600  # permissions, before the process's umask
_OWNERS_FOLDER = 0o700
_LOOKS = (0.01, 0.02, 0.05)  # seconds until a lock that is held is tried again


def state_folder() -> Path:
    """Where programs keep what must outlive them, by the XDG convention."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "fl-dp"


def private_folder(path: Path) -> Path:
    """The folder `path`, made if it is not there; then only its owner can look into it. Returns `path`.

    One that is there stays as it is: somebody may have given it to others on purpose.
    """
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=_OWNERS_FOLDER, exist_ok=True)
    return path


def open_private(path: Path, *, append: bool = False, follow: bool = False) -> BinaryIO:
    """Open the file for writing; only its owner can read it, also if it was there before. append: or anew.

    follow: a link, too, such as /dev/stdout, because who runs this has named it. Else OSError for one.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    descriptor = os.open(path, flags, _OWNER) if follow else _opened_itself(path, flags, _OWNER)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):  # and no terminal
        os.fchmod(descriptor, _OWNER)
    return os.fdopen(descriptor, "ab" if append else "wb")


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, secret: bool = False) -> None:
    """Replace the content of the file `path` by what `write` writes.

    If the process or the machine stops at any moment, `path` holds its old content or all of the new one.
    Only one process at a time may write it. secret: only its owner can read it.
    """
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)  # of a process that was killed; or a link, a pipe, put there by others
    try:
        with _open(unfinished, _OWNER if secret else _ANYBODY) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # on a full disk others need the room
        raise
    sync_folder(path.parent)


def _open(path: Path, permissions: int) -> BinaryIO:
    """A new file: what already has the name is never written to, wherever it leads."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions), "wb")


def _opened_itself(path: Path, flags: int, permissions: int = _ANYBODY) -> int:
    """A descriptor of what has this name, and not of what it leads to; OSError, in words, for a link."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, permissions)
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and links are not followed here", str(path)) from None
        raise


def append_text(path: Path, text: str) -> None:
    """Append `text`, all of it or nothing; a new file is its owner's alone. OSError for a link."""
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
    """One write takes less than all where the disk is about to be full."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]


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
    """Open it, made if need be; nothing in it changes. ConfigError for what is no plain file.

    Nobody else may open it: whoever can read a file can hold its lock.
    """
    try:
        descriptor = _opened_itself(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, _OWNER)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be used as a lock: {error.strerror}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{path}: cannot be used as a lock: it is no plain file.")
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, _OWNER)  # an older fl_dp let others read it
    return os.fdopen(descriptor, "r+b")


def _locked_soon(file: BinaryIO) -> bool:
    """Lock the file; False when somebody holds it for longer than a look of `is_held` takes."""
    for wait in (*_LOOKS, None):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if wait is None:
                return False
            time.sleep(wait)
        else:
            break
    return True


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file `path` now. Nothing is written; the look takes a moment."""
    try:
        descriptor = _opened_itself(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # there is none, or none that anybody could hold
        return False
    with os.fdopen(descriptor, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, as soon as nobody else does. ConfigError for a link."""
    with _lock_file(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def version_of(*paths: Path) -> tuple[int, ...]:
    """Numbers that differ once one of the files has been written anew; empty while one is not there."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return ()
    return tuple(number for one in found for number in (one.st_mtime_ns, one.st_ino))


def sync_folder(folder: Path) -> None:
    """Write the folder itself to the disk: only then is a new name in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
