"""Cases and what was seen of them: contenders run in turn, as often as asked."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.options import say
from benchmarks.simulation.contenders import Load
from benchmarks.simulation.watch import Command, NotMeasured, Seen, watch


@dataclass(frozen=True, slots=True)
class Case:
    """One contender on one task: a load, or a federation's name.

    command: how it starts in an empty folder; raises NotMeasured where it cannot.
    """

    contender: str
    task: Load | str
    command: Callable[[Path], Command]

    def __str__(self) -> str:
        return f"{self.contender}, {self.task}"


@dataclass(slots=True)
class Outcome:
    """What was seen of a case, and why not more where it has ended."""

    case: Case
    seen: list[Seen] = field(default_factory=list)
    ended: NotMeasured | None = None

    @property
    def round_seconds(self) -> list[float]:
        """Of all rounds that count, of all runs."""
        return [seconds for run in self.seen for seconds in run.counted]

    @property
    def round(self) -> float:
        """Median seconds of a round."""
        return statistics.median(self.round_seconds)

    def median(self, of: Callable[[Seen], float | None]) -> float | None:
        """Over the runs that tell; None where none does."""
        values = [value for run in self.seen if (value := of(run)) is not None]
        return statistics.median(values) if values else None


def run_all(cases: Sequence[Case], repeats: int, limit: float) -> list[Outcome]:
    """Every case `repeats` times, in turn: other work on the machine then meets all of them.

    A case that could not be measured is not started again. limit: seconds that a run may take.
    """
    outcomes = [Outcome(case) for case in cases]
    for _ in range(repeats):
        for outcome in outcomes:
            if outcome.ended is None:
                _run(outcome, limit)
    return outcomes


def _run(outcome: Outcome, limit: float) -> None:
    with tempfile.TemporaryDirectory(prefix="sim-") as folder:  # short: Ray's sockets have paths below it
        try:
            outcome.seen.append(watch(outcome.case.command(Path(folder)), limit))
        except NotMeasured as ended:
            outcome.ended = ended
            say(f"{outcome.case}: {ended.word}: {ended.reason}")
        else:
            seconds = ", ".join(f"{s:.2f}" for s in outcome.seen[-1].round_seconds)
            say(f"{outcome.case}: rounds of {seconds} s")
