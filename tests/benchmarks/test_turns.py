from dataclasses import dataclass, field

import pytest

from benchmarks.measure import Cost
from benchmarks.processes import Ended
from benchmarks.turns import Entry, take_turns


@dataclass
class Clock:
    """Time passes only while somebody takes steps; everything is as slow as `slowness` says."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    @property
    def slowness(self) -> float:
        return 1.0 + self.now / 1000  # other work that grows


@dataclass
class Machine:
    clock: Clock
    seconds: float
    ends_after: int = 10**9
    taken: int = 0
    log: list[float] = field(default_factory=list)

    def turn(self) -> float:
        if self.taken == self.ends_after:
            raise Ended("killed", "no more")
        self.taken += 1
        seconds = self.seconds * self.clock.slowness
        self.clock.now += seconds
        return Cost(seconds, self.taken)


def measured(seconds, *machines, baseline=1.0):
    clock = Clock()
    entries = [Entry(Machine(clock, s, after)) for s, after in machines]
    sgd = Machine(clock, baseline)
    take_turns(entries, sgd, seconds, clock)
    return entries, sgd


NEVER = 10**9


def test_what_grows_slower_all_the_time_does_not_change_ratios():
    (double, again), _ = measured(2000.0, (2.0, NEVER), (1.0, NEVER))
    assert double.turns[-1].step.seconds > 2 * double.turns[0].step.seconds
    assert [t.ratio for t in double.turns] == pytest.approx([2.0] * len(double.turns), rel=0.02)
    assert [t.ratio for t in again.turns] == pytest.approx([1.0] * len(again.turns), rel=0.02)


def test_engines_share_the_time_so_that_a_slow_one_takes_fewer_turns():
    (fast, slow), sgd = measured(200.0, (1.0, NEVER), (10.0, NEVER))
    assert len(fast.turns) > 2 * len(slow.turns) > 0
    assert fast.spent == pytest.approx(slow.spent, rel=0.5)
    assert sgd.taken == 1 + len(fast.turns) + len(slow.turns)  # before the first, and after each


def test_each_takes_one_turn_however_little_time_there_is():
    entries, _ = measured(0.0, (1.0, NEVER), (50.0, NEVER))
    assert [len(entry.turns) for entry in entries] == [1, 1]


def test_an_engine_that_ends_is_noted_and_the_others_go_on():
    (ends, stays), _ = measured(60.0, (1.0, 2), (1.0, NEVER))
    assert ends.ended is not None
    assert ends.ended.status == "killed"
    assert len(ends.turns) == 2 < len(stays.turns)
    assert stays.ended is None


def test_without_plain_sgd_there_is_nothing_to_compare_with():
    clock = Clock()
    with pytest.raises(Ended):
        take_turns([Entry(Machine(clock, 1.0))], Machine(clock, 1.0, ends_after=1), 60.0, clock)


def test_no_entries_are_no_turns():
    entries, sgd = measured(60.0)
    assert entries == []
    assert sgd.taken == 1
