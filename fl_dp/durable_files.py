"""Files that survive a crash: written whole or not at all, and on the disk when the call returns."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fl_dp.errors import ConfigError

_ANYBODY, _OWNER = 0o666, 0o600  # less what the process's umask takes


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, secret: bool = False) -> None:
    """Put what `write` writes in the place of the file `path`.

    Whenever the process or the machine stops, `path` is what it was or what it is to be, nothing in between.
    One process at a time. secret: only its owner can read it.
    """
    unfinished = path.with_name(f".{path.name}.new")
    mode = _OWNER if secret else _ANYBODY
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync_folder(path.parent)


def append_text(path: Path, text: str) -> None:
    """Append `text` in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; ConfigError while another process does.

    The system takes the lock away from a process that ends, however it ends.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{path.parent}: another process is at work on this run; end it first."
            ) from None
        yield


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
