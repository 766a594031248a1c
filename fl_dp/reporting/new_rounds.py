"""Follows rounds.jsonl while a run may still be writing it."""

import os
from pathlib import Path
from typing import Any

from fl_dp.clean_text import clean_json
from fl_dp.config.files import check_plain
from fl_dp.errors import ConfigError
from fl_dp.reporting.read_results import read_round

FIRST = 10  # rounds to read of those already there: each may have thousands of clients


class NewRounds:
    """Returns each complete line of rounds.jsonl once, also if a resumed run rewrites the file.

    left_out: rounds before the first that was read. problems: what is wrong with skipped lines.
    """

    def __init__(self, path: Path, first: int | None = FIRST) -> None:
        """first: how many of the latest rounds already there to return; None: all."""
        self.left_out = 0
        self.problems: list[str] = []
        self._path, self._first = path, first
        self._file = 0  # its inode
        self._offset = self._lines = self._last = 0

    def new(self) -> list[dict[str, Any]]:
        """Rounds after the last one returned; their texts are printable. ConfigError if unreadable."""
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
        """Lines that are complete by now; an incomplete one comes with a later call."""
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
