"""The rounds that a run has written since one looked last, while it may still be writing."""

import os
from pathlib import Path
from typing import Any

from fl_dp.clean_text import clean_json
from fl_dp.config.files import check_plain
from fl_dp.errors import ConfigError
from fl_dp.reporting.read_results import read_round

FIRST = 10  # of the rounds that are there already, so many are read: each may be of thousands of clients


class NewRounds:
    """Each whole line of rounds.jsonl once. A resumed run writes the file anew; its lines are told by number.

    left_out: rounds before the first that was read. problems: what is wrong with lines that were passed over.
    """

    def __init__(self, path: Path, first: int | None = FIRST) -> None:
        """first: of the rounds that are there already, so many of the latest are told; None: all."""
        self.left_out = 0
        self.problems: list[str] = []
        self._path, self._first = path, first
        self._file = 0  # its inode
        self._offset = self._lines = self._last = 0

    def new(self) -> list[dict[str, Any]]:
        """Rounds that follow on the last one told; texts in them are printable. ConfigError: unreadable."""
        lines, before = self._complete(), self._lines
        self._lines += len(lines)
        skipped = 0 if self._first is None or self._last else max(0, len(lines) - self._first)
        self.left_out += skipped
        found = []
        for number, line in list(enumerate(lines, before + 1))[skipped:]:
            try:
                record = clean_json(
                    read_round(line.decode(), f"{self._path.name}, line {number}", whole=True)
                )
            except (ConfigError, ValueError) as error:
                self.problems.append(str(error))
                continue
            if record["round"] > self._last:
                found.append(record)
                self._last = record["round"]
        return found

    def _complete(self) -> list[bytes]:
        """Lines that are whole by now; a half one is there at a later look."""
        check_plain(self._path)
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be read: {error.strerror}.") from None
        with file:
            there = os.fstat(file.fileno())
            if there.st_ino != self._file or there.st_size < self._offset:
                self._file, self._offset, self._lines = there.st_ino, 0, 0
            file.seek(self._offset)
            whole, end, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        return whole.split(b"\n") if end else []
