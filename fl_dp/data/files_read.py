"""The files that records are read from: whether one has changed, and how a ledger recognises them.

Another schema, unit or label changes the digest of every record, but not the file. So a ledger also
identifies data by the SHA-256 of each file and by the file's lines: most lines stay the same if some are
added, changed or reordered.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_dp.errors import DataError

Lines = Callable[[Path], Iterable[bytes]]  # reads a file's lines, or the rows of a file that has none
State = tuple[tuple[Path, bytes], ...]  # files, and the SHA-256 of each

_SEPARATOR = re.compile(rb"[,;|\t]")
_FEWEST = 10  # lines
_DISTINCT = 0.95  # least share of distinct lines; with fewer, other data may well have the same lines
_ALIKE = 0.1  # most pairs of lines that agree on all but the first cell, which may just be a row number


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The files that hold a data set's records. lines: None if they have none."""

    state: State
    lines: Lines | None = None

    def digests(self) -> Iterable[bytes]:
        """SHA-256 of each file, and its distinct lines unless other data may well have the same ones.

        A ledger hashes all of them with its key. Lines are read only when it asks, once for each account.
        DataError for a file that has changed since its records were read.
        """
        files = [digest for _, digest in self.state]
        if self.lines is None:
            return files
        if changed := [path for path, digest in self.state if _digest(path) != digest]:
            raise DataError(f"{changed[0]}: changed after its records were read; start again.")
        lines = [line for path, _ in self.state for line in self.lines(path)]
        return {*files, *lines} if _tell_apart(lines) else files


def state_of(paths: Iterable[Path]) -> State:
    """The files among `paths`, as they are now."""
    return tuple((file, digest) for file in paths if (digest := _digest(file)))


def raw_lines(path: Path) -> list[bytes]:
    """The lines of a text file, without spaces at their ends."""
    return [line for line in map(bytes.strip, path.read_bytes().split(b"\n")) if line]


def _digest(path: Path) -> bytes:
    """Empty for what is no file or cannot be read: its data source says why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""


def _tell_apart(lines: Sequence[bytes]) -> bool:
    """Whether other data rarely have the same lines.

    Two tables of different patients may both hold a row number and a yes or no: all lines of each table are
    distinct, but half of them are in the other table, too.
    """
    if len(set(lines)) < max(_FEWEST, _DISTINCT * len(lines)):
        return False
    rest = Counter(_SEPARATOR.split(line, 1)[-1] for line in lines).values()
    return sum(count * (count - 1) for count in rest) <= _ALIKE * len(lines) * (len(lines) - 1)
