"""Files that survive a crash: written whole or not at all, and on the disk when the call returns."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fl_dp.errors import ConfigError

_ANYBODY, _OWNER = 0o666, 0o600  # permissions, before the process's umask


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, secret: bool = False) -> None:
    """Replace the content of the file `path` by what `write` writes.

    If the process or the machine stops at any moment, `path` holds its old content or all of the new one.
    Only one process at a time may write it. secret: only its owner can read it.
    """
    unfinished = path.with_name(f".{path.name}.new")
    mode = _OWNER if secret else _ANYBODY
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def append_text(path: Path, text: str) -> None:
    """Append `text` in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def exclusive(path: Path, what: str = "another process is at work on this run") -> Iterator[None]:
    """Hold the lock file `path`; ConfigError, which says `what`, while another process does.

    The system releases the lock when the process ends, however it ends.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{path.parent}: {what}; end it first.") from None
        yield


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, as soon as nobody else does."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Write the folder itself to the disk: only then is a new name in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
