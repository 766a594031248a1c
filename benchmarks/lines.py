"""Results of runs as lines of a file: a measurement goes on where it was stopped."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.options import say

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Lines:
    """A JSON object a line: what was run, and what came of it."""

    file: Path

    def read(self) -> list[Line]:
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]

    def measure(self, key: Line, run: Callable[[], Line]) -> None:
        """Add what `run` gives to the line `key`, unless there is one."""
        if any(all(line.get(part) == value for part, value in key.items()) for line in self.read()):
            return
        text = json.dumps({**key, **run()})
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        say(text)


def mean(values: Sequence[float | None]) -> str:
    """With its standard error over runs; None counts nowhere."""
    there = [value for value in values if value is not None]
    if len(there) < 2:
        return f"{there[0]:.3f}" if there else ""
    return f"{statistics.mean(there):.3f} ± {statistics.stdev(there) / len(there) ** 0.5:.3f}"
