"""Who takes steps when: engines in turn, each between two turns of plain SGD that it is compared with.

Other work on the machine comes and goes. What is compared is therefore measured within a second or
so, many times over, rather than one after the other.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.measure import Cost
from benchmarks.processes import Ended


@dataclass(frozen=True, slots=True)
class Turn:
    """An engine's step, and plain SGD's: the mean of just before and just after."""

    step: Cost
    baseline: Cost

    @property
    def ratio(self) -> float:
        return self.step.seconds / self.baseline.seconds


class Steps(Protocol):
    """What can take steps: a `Bench`, here or in another process."""

    def turn(self) -> Cost:
        """Take a few steps: what one costs. Raises `Ended` if it can go no further."""


@dataclass(slots=True)
class Entry:
    """An engine that is measured. spent: seconds that it has had so far."""

    steps: Steps
    spent: float = 0.0
    turns: list[Turn] = field(default_factory=list)
    ended: Ended | None = None


def take_turns(
    entries: Sequence[Entry],
    baseline: Steps,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """For about `seconds`, give the next turn to the entry that has had the least time.

    A slow engine takes fewer turns than a fast one, each takes one at least. Raises `Ended` only for
    the baseline.
    """
    end = clock() + seconds
    before = baseline.turn()
    while running := [e for e in entries if e.ended is None and (not e.turns or clock() < end)]:
        entry = min(running, key=lambda e: e.spent)
        start = clock()
        try:
            step = entry.steps.turn()
        except Ended as ended:
            entry.ended = ended
            continue
        after = baseline.turn()
        entry.turns.append(Turn(step, _mean(before, after)))
        entry.spent += clock() - start
        before = after


def _mean(before: Cost, after: Cost) -> Cost:
    return Cost((before.seconds + after.seconds) / 2, max(before.peak_bytes, after.peak_bytes))
