"""Run a contender's command and see its rounds from outside."""

import os
import signal
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.simulation.rounds import ROUNDS, WORK, RoundsEnding, read_lines
from benchmarks.simulation.usage import MARK, Usage, members, usage
from fl_dp.launch.processes import cores

_POLL, _GRACE = 0.02, 15.0  # seconds
_LONG_ENOUGH = 1.0  # seconds: /proc counts in hundredths

Line = Mapping[str, object]  # of JSON


class NotMeasured(Exception):  # noqa: N818  (a contender's end is a result, not an error of the benchmark)
    """A contender has no figures. word: fit for a table's cell; reason: the contender's own."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(word, reason)
        self.word, self.reason = word, reason


def is_ray_actor(title: str) -> bool:
    return title.startswith("ray::")


def is_any(title: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """A command that leaves `rounds` lines in `folder`/rounds.jsonl, and ends.

    trains: whether a process with this title trains clients.
    """

    arguments: Sequence[str]
    folder: Path
    rounds: int
    environment: Mapping[str, str] = field(default_factory=dict)
    trains: Callable[[str], bool] = is_ray_actor


@dataclass(frozen=True, slots=True)
class Seen:
    """One run of a command.

    round_seconds: of every round, as the contender measured it. start_seconds: from the start of the
    command to the first round, and what that took longer than the others: in it Flower starts its
    processes. driver_peak_bytes: largest resident set of the process that holds the server; None where it
    does not tell.

    In the rounds that count, and None where these are too short to tell:
    cpu_seconds: that a round took of all cores, driver and all. training_share: of the cores' time, that
    in which clients trained; other_share: what everybody else's processes took of it.
    """

    round_seconds: tuple[float, ...]
    start_seconds: float
    driver_peak_bytes: int | None
    cpu_seconds: float | None
    training_share: float | None
    other_share: float | None

    @property
    def counted(self) -> tuple[float, ...]:
        """Seconds of all rounds but the first, when processes start, and the last, when fl_dp evaluates."""
        return self.round_seconds[1:-1]


@dataclass(frozen=True, slots=True)
class Moment:
    """The end of a round, as seen from outside, while the command ran. time: seconds since its start."""

    time: float
    usage: Usage


def watch(command: Command, limit: float) -> Seen:
    """Run it to its end. Raises NotMeasured when it fails or takes more than `limit` seconds."""
    command.folder.parent.mkdir(parents=True, exist_ok=True)
    log = command.folder.with_suffix(".log")
    rounds, mark, start = RoundsEnding(command.folder), uuid.uuid4().hex, time.perf_counter()
    moments: list[Moment] = []
    with _running(command, mark, log) as process:
        while process.poll() is None:
            time.sleep(_POLL)
            if ended := rounds.since():
                moment = Moment(time.perf_counter() - start, usage(mark, command.trains))
                moments += [moment] * ended
            elif time.perf_counter() - start > limit:
                raise NotMeasured("slow", f"not done after {limit:g} s")
    lines = read_lines(command.folder / ROUNDS)
    if process.returncode != 0 or len(lines) != command.rounds or not moments:
        raise NotMeasured("failed", f"{_last_line(log)} (exit code {process.returncode})")
    return seen_of(lines, read_lines(command.folder / WORK), moments)


def seen_of(lines: Sequence[Line], work: Sequence[Line], moments: Sequence[Moment]) -> Seen:
    """lines, work: of rounds.jsonl and of simulation.jsonl, which only fl_dp has; moments: when the former
    appeared, those of the last ones perhaps missing.
    """
    seconds = tuple(_number(line["seconds"]) for line in lines)
    ends = moments[: len(lines) - 1]  # of the first round, and of those that count
    first, last = ends[0], ends[-1]
    available = (last.time - first.time) * cores()
    command = last.usage.command - first.usage.command
    others = last.usage.machine - first.usage.machine - command
    training = _busy_share(lines, work)
    if training is None:
        training = (last.usage.training - first.usage.training) / max(available, _POLL)
    long_enough = last.time - first.time >= _LONG_ENOUGH
    peak = lines[-1].get("driver_peak_bytes")
    return Seen(
        round_seconds=seconds,
        start_seconds=first.time - statistics.median(seconds[1:-1]),
        driver_peak_bytes=None if peak is None else int(_number(peak)),
        cpu_seconds=command / (len(ends) - 1) if long_enough else None,
        training_share=training if long_enough else None,
        other_share=max(0.0, others / available) if long_enough else None,
    )


def _busy_share(lines: Sequence[Line], work: Sequence[Line]) -> float | None:
    """From the contender's own report, where it tells in how many seconds its clients trained."""
    seconds = sum(_number(line["seconds"]) for line in lines[1:-1])
    busy = sum(_number(line["busy_seconds"]) for line in work[1:-1])
    return busy / (seconds * cores()) if len(work) == len(lines) else None


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


@contextmanager
def _running(command: Command, mark: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start it; all that it started is gone when the block is left."""
    environment = {**os.environ, **command.environment, MARK: mark}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command.arguments, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        _end(process, mark)


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    for pid in members(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no word")


def module(name: str, *arguments: object, python: Sequence[str] = (sys.executable,)) -> list[str]:
    """A module of this package as a command, with `arguments` as texts."""
    return [*python, "-m", f"benchmarks.simulation.{name}", *map(str, arguments)]
