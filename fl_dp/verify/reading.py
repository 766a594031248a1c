"""Reads untrusted files: only plain files, within bounds, and without waiting."""

import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fl_dp.config.files import DAMAGED, parse_json
from fl_dp.errors import ConfigError

# In bytes. Parsed JSON takes up to 24 times as much memory, 1.5 GiB at most. 5,000 clients need 1.8 MB for a
# round (rounds are read one by one), 3.0 MB for a summary, 3.9 MB for statements. So 80,000 clients fit.
MOST_JSON = 2**26  # of a whole file
MOST_LINE = 2**25  # of rounds.jsonl
_MOST_TOML = 2**20  # of settings; ours have some 2,000


class CutOffError(ConfigError):
    """A file's last line is incomplete: its writer was stopped, or somebody cut it off."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The plain file, open for reading; ConfigError for a link, a pipe, a device, or no file.

    A link could lead to any file of this machine, and a finding might then show its content.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        why = "it is a link, and links are not followed" if path.is_symlink() else error.strerror
        raise ConfigError(f"{path.name} cannot be read: {why}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{path.name} cannot be read: it is not a regular file.")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise ConfigError(f"{path.name} cannot be read: {error.strerror}.") from None


def is_there(path: Path) -> bool:
    """Whether anything has that name, even a broken link."""
    return os.path.lexists(path)


def read_bytes(path: Path, most: int = MOST_JSON) -> bytes:
    """The content; ConfigError if it is longer than `most` bytes, or cannot be read."""
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ConfigError(f"{path.name} is longer than {_mib(most)}, and was not read.")
    return content


def read_json(path: Path) -> Any:
    """The parsed file; ConfigError if it is not JSON."""
    return parse_json(read_bytes(path), path.name)


def read_toml(path: Path) -> dict[str, Any]:
    """The table in the file; ConfigError if it is not TOML."""
    content = read_bytes(path, _MOST_TOML)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except DAMAGED:
        raise ConfigError(f"{path.name} is damaged: it is not readable TOML.") from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines, numbered from 1, one in memory at a time.

    ConfigError for a line of more than MOST_LINE; CutOffError for an incomplete last one.
    """
    with opened(path) as file:
        number = 0
        while line := file.readline(MOST_LINE):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) == MOST_LINE:
                    why = f"longer than {_mib(MOST_LINE)}, and was not read"
                    raise ConfigError(f"{path.name}, line {number} is {why}.")
                raise CutOffError(f"{path.name}, line {number} is cut off.")
            yield number, line


def check_bounds(path: Path, *, by_line: bool = False) -> None:
    """Raise ConfigError if a file that is parsed elsewhere is too long; by_line: if a line of it is."""
    with opened(path) as file:
        if not by_line and file.seek(0, os.SEEK_END) > MOST_JSON:
            raise ConfigError(f"{path.name} is longer than {_mib(MOST_JSON)}, and was not read.")
        while by_line and (line := file.readline(MOST_LINE)):
            if len(line) == MOST_LINE and not line.endswith(b"\n"):
                raise ConfigError(f"{path.name} has a line longer than {_mib(MOST_LINE)}, and was not read.")


def _mib(count: int) -> str:
    return f"{count / 2**20:g} MiB"


def whole(found: object) -> int:
    """A count; ValueError for anything else."""
    if type(found) is not int or not 0 <= found < 2**53:
        raise ValueError("no count")
    return found


def text(found: object) -> str:
    if type(found) is not str:
        raise ValueError("no text")
    return found


def table(found: object) -> dict[str, Any]:
    if type(found) is not dict:
        raise ValueError("no table")
    return found
