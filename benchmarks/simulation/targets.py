"""What is to be reached, beside what was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.markdown import table
from benchmarks.simulation.contenders import (
    FLOWER,
    FLOWER_OPACUS,
    FLOWER_SGD,
    OURS,
    OURS_NOT_PRIVATE,
    PFL,
    Load,
)
from benchmarks.simulation.outcomes import Outcome

SMALL, LARGE = 100_000, 10_000_000  # bytes of a model
FEDERATION = "fashion-mnist"

Figure = Callable[[Outcome], float | None]


@dataclass(frozen=True, slots=True)
class Target:
    """One line. yardsticks: the others' outcomes, by contender. Reached: at most, or at least, so much."""

    what: str
    task: Load | str
    figure: Figure
    ours: str
    yardsticks: tuple[str, ...]
    reach: float
    goal: float
    at_most: bool = True

    def verdict(self, seen: float | None) -> str:
        if seen is None:
            return ""
        sign = 1 if self.at_most else -1
        if sign * seen <= sign * self.goal:
            return "goal"
        return "reached" if sign * seen <= sign * self.reach else "missed"


def ms_a_client(outcome: Outcome) -> float | None:
    assert isinstance(outcome.case.task, Load)
    return 1e3 * outcome.round / outcome.case.task.clients


def driver_gib(outcome: Outcome) -> float | None:
    peaks = [run.driver_peak_bytes for run in outcome.seen if run.driver_peak_bytes is not None]
    return max(peaks) / 2**30 if peaks else None


def rounds_a_minute(outcome: Outcome) -> float | None:
    return 60 / outcome.round


def training_percent(outcome: Outcome) -> float | None:
    share = outcome.median(lambda run: run.training_share)
    return None if share is None else 100 * share


def start_seconds(outcome: Outcome) -> float | None:
    return outcome.median(lambda run: run.start_seconds)


TARGETS = (
    Target(
        "ms a client beyond training, 500 clients, 0.1 MB",
        Load(500, SMALL),
        ms_a_client,
        OURS,
        (FLOWER,),
        2,
        0.5,
    ),
    Target("the same, 10 MB", Load(500, LARGE), ms_a_client, OURS, (FLOWER,), 15, 6),
    Target("driver's peak memory, GiB, 500 x 10 MB", Load(500, LARGE), driver_gib, OURS, (FLOWER,), 1, 0.5),
    Target(
        f"{FEDERATION}, rounds a minute, private",
        FEDERATION,
        rounds_a_minute,
        OURS,
        (FLOWER_OPACUS,),
        80,
        130,
        at_most=False,
    ),
    Target(
        "the same, not private",
        FEDERATION,
        rounds_a_minute,
        OURS_NOT_PRIVATE,
        (FLOWER_SGD, PFL),
        110,
        180,
        at_most=False,
    ),
    Target(
        "% of the cores' time in which clients train",
        FEDERATION,
        training_percent,
        OURS,
        (FLOWER_OPACUS,),
        85,
        95,
        at_most=False,
    ),
    Target(
        "seconds from the start to the first round", FEDERATION, start_seconds, OURS, (FLOWER_OPACUS,), 8, 4
    ),
)


def table_of_targets(outcomes: Sequence[Outcome]) -> str:
    """A line without figures where nothing was measured."""
    rows = [_row(target, outcomes) for target in TARGETS]
    return table(("", "yardsticks", "to reach", "goal", "fl_dp", ""), rows, left=2)


def _row(target: Target, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    ours = _seen(target, target.ours, outcomes)
    others = [(name, _seen(target, name, outcomes)) for name in target.yardsticks]
    told = ", ".join(f"{name} {number(seen)}" for name, seen in others if seen is not None)
    sign = "<=" if target.at_most else ">="
    limits = (f"{sign} {target.reach:g}", f"{sign} {target.goal:g}")
    return (target.what, told, *limits, number(ours), target.verdict(ours))


def _seen(target: Target, contender: str, outcomes: Sequence[Outcome]) -> float | None:
    for outcome in outcomes:
        if outcome.case.contender == contender and outcome.case.task == target.task and outcome.seen:
            return target.figure(outcome)
    return None


def number(value: float | None) -> str:
    """Three digits; nothing for nothing."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
