"""Every contender tells of its rounds as fl_dp does: a line of JSON each, appended to rounds.jsonl.

fl_dp's own engine tells more in simulation.jsonl: `busy_seconds`, those of all its processes in which clients
were trained.

The standard library only: pfl-research writes its rounds from an environment of its own.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path

ROUNDS, WORK = "rounds.jsonl", "simulation.jsonl"


class RoundClock:
    """Writes a line at the end of each round: its seconds, and the most memory of this process so far."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._round, self._last = folder / ROUNDS, 0, time.perf_counter()

    def start(self) -> None:
        """The first round begins now."""
        self._last = time.perf_counter()

    def tick(self) -> None:
        """A round has ended, and the next one begins."""
        now = time.perf_counter()
        self._round += 1
        line = {"round": self._round, "seconds": now - self._last, "driver_peak_bytes": _peak_bytes()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._last = time.perf_counter()


def _peak_bytes() -> int:
    """The largest resident set of this process since it started: VmHWM of /proc/self/status."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class RoundsEnding:
    """Watches a rounds.jsonl that is being written; reads no byte of it twice."""

    def __init__(self, folder: Path) -> None:
        self._path, self._read = folder / ROUNDS, 0

    def since(self) -> int:
        """How many rounds have ended since the last call."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._read)
            more = file.read()
        self._read += len(more)
        return more.count(b"\n")


def read_lines(path: Path) -> list[Mapping[str, object]]:
    """What was told of the rounds; nothing where there is no such file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]
