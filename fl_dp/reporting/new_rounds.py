"""Follows rounds.jsonl while a run may still be writing it."""

from pathlib import Path
from typing import Any

from fl_dp.clean_text import clean_json
from fl_dp.config.files import check_plain
from fl_dp.durable_files import NewLines
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
        self._lines, self._first, self._last = NewLines(path), first, 0

    def new(self) -> list[dict[str, Any]]:
        """Rounds after the last one returned; their texts are printable. ConfigError if unreadable."""
        path = self._lines.path
        check_plain(path)
        try:
            lines = self._lines.new()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
        skipped = 0 if self._first is None or self._last else max(0, len(lines) - self._first)
        self.left_out += skipped
        found = []
        for number, line in list(enumerate(lines, self._lines.read - len(lines) + 1))[skipped:]:
            try:
                record = clean_json(read_round(line.decode(), f"{path.name}, line {number}", whole=True))
            except (ConfigError, ValueError) as error:
                self.problems.append(str(error))
                continue
            if record["round"] > self._last:
                found.append(record)
                self._last = record["round"]
        return found
