from dataclasses import dataclass

import pytest

from benchmarks.measure import Cost
from benchmarks.processes import Ended
from benchmarks.turns import Entry, take_turns


@dataclass
class Machine:
    """Time passes while anybody takes steps; everything gets slower all the time, by other work."""

    clock: list[float]
    seconds: float
    ends_after: int = 10**9
    taken: int = 0

    def turn(self) -> Cost:
        if self.taken == self.ends_after:
            raise Ended("killed", "no more")
        self.taken += 1
        seconds = self.seconds * (1.0 + self.clock[0] / 1000)
        self.clock[0] += seconds
        return Cost(seconds, self.taken)


def measured(seconds, *machines, sgd_ends=10**9):
    """Entries of (seconds a step, turns until it ends), and plain SGD."""
    clock = [0.0]
    entries = [Entry(Machine(clock, *one)) for one in machines]
    sgd = Machine(clock, 1.0, sgd_ends)
    take_turns(entries, sgd, seconds, lambda: clock[0])
    return entries, sgd


def test_what_grows_slower_all_the_time_does_not_change_ratios():
    (double, again), _ = measured(2000.0, (2.0,), (1.0,))
    assert double.turns[-1].step.seconds > 2 * double.turns[0].step.seconds
    assert [t.ratio for t in double.turns] == pytest.approx([2.0] * len(double.turns), rel=0.02)
    assert [t.ratio for t in again.turns] == pytest.approx([1.0] * len(again.turns), rel=0.02)


def test_engines_share_the_time_so_that_a_slow_one_takes_fewer_turns():
    (fast, slow), sgd = measured(200.0, (1.0,), (10.0,))
    assert len(fast.turns) > 2 * len(slow.turns) > 0
    assert fast.spent == pytest.approx(slow.spent, rel=0.5)
    assert sgd.taken == 1 + len(fast.turns) + len(slow.turns)  # before the first, and after each


def test_each_takes_one_turn_however_little_time_there_is():
    entries, _ = measured(0.0, (1.0,), (50.0,))
    assert [len(entry.turns) for entry in entries] == [1, 1]
    entries, sgd = measured(60.0)
    assert (entries, sgd.taken) == ([], 1)


def test_an_engine_that_ends_is_noted_and_the_others_go_on_but_not_without_plain_sgd():
    (ends, stays), _ = measured(60.0, (1.0, 2), (1.0,))
    assert ends.ended.status == "killed"
    assert len(ends.turns) == 2 < len(stays.turns)
    assert stays.ended is None
    with pytest.raises(Ended):
        measured(60.0, (1.0,), sgd_ends=1)
