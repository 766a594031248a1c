"""The files that records are read from: whether one has changed, and how a ledger knows them again.

Another schema, unit or label changes the digest of every record, but not the file. So a ledger also knows
data by the SHA-256 of each file, and by a file's lines as they stand there: most of them stay the same where
lines are added, changed or put in another order.
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
_DISTINCT = 0.95  # share of lines; with fewer, their values are so few that other data have the same ones
_ALIKE = 0.1  # share of pairs of lines that may agree on all but the first cell: it may just be a number


@dataclass(frozen=True, slots=True)
class FilesRead:
    """The files that hold a data set's records. lines: None if they have none."""

    state: State
    lines: Lines | None = None

    def digests(self) -> Iterable[bytes]:
        """SHA-256 of each file, and the distinct lines, unless other data may well have them, too.

        A ledger hashes all with its key. Lines are read only when it asks, once for each account. DataError
        for a file that has changed since its records were read.
        """
        files = [digest for _, digest in self.state]
        if self.lines is None:
            return files
        if changed := [path for path, digest in self.state if _digest(path) != digest]:
            raise DataError(f"{changed[0]}: has changed since its records were read; start again.")
        lines = [line for path, _ in self.state for line in self.lines(path)]
        return {*files, *lines} if _tell_apart(lines) else files


def state_of(paths: Iterable[Path]) -> State:
    """The files among `paths`, as they are now."""
    return tuple((file, digest) for file in paths if (digest := _digest(file)))


def raw_lines(path: Path) -> list[bytes]:
    """The lines of a text file, without spaces at their ends."""
    return [line for line in map(bytes.strip, path.read_bytes().split(b"\n")) if line]


def _digest(path: Path) -> bytes:
    """Empty for what is no file, or cannot be read: its source says why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""


def _tell_apart(lines: Sequence[bytes]) -> bool:
    """Whether other data rarely have the same lines.

    Two tables of unlike patients may both number them and say yes or no of each: those lines are distinct in
    each table, and half of them are in the other.
    """
    if len(set(lines)) < max(_FEWEST, _DISTINCT * len(lines)):
        return False
    rest = Counter(_SEPARATOR.split(line, 1)[-1] for line in lines).values()
    return sum(count * (count - 1) for count in rest) <= _ALIKE * len(lines) * (len(lines) - 1)
