"""Groups of runs in one figure: the median over seeds as a line, and a band from smallest to largest."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fl_dp.reporting.page.compare import Group
from fl_dp.reporting.page.facts import Round, RunFacts
from fl_dp.reporting.page.figures.canvas import (
    INK,
    Figure,
    columns_of,
    framed,
    new_axes,
    round_axes,
    style,
    thinned,
)
from fl_dp.reporting.page.numbers import alone, epsilon, measured
from fl_dp.reporting.page.over import over_runs_in_short
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.page.secure_sums import parts_hidden

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 10  # groups whose lines can be told apart
Value = Callable[[Round], float | None]
Ends = tuple[Group, list[tuple[float, float]]]  # epsilon and metric of each run of a group
_HOLLOW = (
    "Hollow markers: whoever added up these secure sums saw each part, and against them only the "
    "larger epsilon holds:"
)


def compared(groups: Sequence[Group]) -> list[Figure]:
    """The figures of the first groups; none for what was not measured."""
    shown = groups[:MOST]
    name = _metric(shown)
    metric: Value = lambda one: one.measured(name)  # noqa: E731
    found = [
        _over_rounds(shown, "f-metric", name, metric, measured),
        _over_rounds(
            [one for one in shown if one.private], "f-budget", "epsilon", lambda one: one.epsilon, epsilon
        ),
        _over_epsilon(shown, name, metric),
    ]
    return [one for one in found if one is not None]


def band(group: Group, value: Value) -> list[tuple[int, float, float, float]]:
    """(round, smallest, median, largest) over the group's runs that have the value."""
    by_round: dict[int, list[float]] = {}
    for run in group.runs:
        for one in run.history:
            found = value(one)
            if found is not None and math.isfinite(found):
                by_round.setdefault(one.number, []).append(found)
    return [
        (number, min(found), statistics.median(found), max(found))
        for number, found in sorted(by_round.items())
    ]


def _metric(groups: Sequence[Group]) -> str:
    rounds = (one for group in groups for run in group.runs for one in run.history)
    return next((next(iter(one.metrics)) for one in rounds if one.metrics), "loss")


def _over_rounds(
    groups: Sequence[Group], key: str, name: str, value: Value, shown: Callable[[float], str]
) -> Figure | None:
    bands = [(group, found) for group in groups if (found := band(group, value))]
    if not bands:
        return None
    axes = round_axes(name, len(bands), columns_of([group.label for group, _ in bands]))
    for place, (group, found) in enumerate(bands):
        numbers, low, middle, high = zip(*thinned(found), strict=True)
        look = style(place, len(numbers))
        axes.plot(numbers, middle, label=group.label, **look)
        if len(group.runs) > 1:
            axes.fill_between(numbers, low, high, color=look["color"], alpha=0.25, linewidth=0)
    if name == "epsilon":
        axes.set_ylim(bottom=0)
    title = f"{name} over the rounds"
    ends = "; ".join(f"{group.label}: {shown(found[-1][2])}" for group, found in bands)
    text = f"{name} after the last round, as the median over seeds: {ends}."
    rows = tuple(
        (group.name, str(number), shown(low), shown(middle), shown(high))
        for group, found in bands
        for number, low, middle, high in found
    )
    columns = ("folder", "round", "least", "median", "largest")
    table = Table(f"{key}-table", title, columns, rows)
    return framed(axes, key, title, text, table)


def _over_epsilon(groups: Sequence[Group], name: str, value: Value) -> Figure | None:
    """Where each group ended. Runs without privacy, which have no epsilon, are a horizontal line."""
    ends = [(group, [end for run in group.runs if (end := _end(run, value)) is not None]) for group in groups]
    ends = [(group, found) for group, found in ends if found]
    if not any(group.private for group, _ in ends) or len(ends) < 2:
        return None
    columns = columns_of([group.label for group, _ in ends])
    seen = [group.runs for group, _ in ends if any(map(_parts_seen, group.runs))]
    over = over_runs_in_short(*(run for group, _ in ends for run in group.runs if run.private))
    axes = new_axes(f"epsilon at the end, {over}", name, len(ends), columns)
    for place, (group, found) in enumerate(ends):
        look = style(place, 1)
        across, up = (statistics.median(one[part] for one in found) for part in (0, 1))
        values = [one[1] for one in found]
        if group.private:
            look |= {"linestyle": "none", "markersize": 6.5, "clip_on": False}
            look |= {"markerfacecolor": "none"} if group.runs in seen else {}
            axes.plot([across], [up], label=group.label, **look)
            axes.vlines(across, min(values), max(values), color=look["color"], linewidth=1.4)
        else:
            axes.axhline(up, label=group.label, color=INK, linestyle=look["linestyle"], linewidth=1.4)
    _frame(axes, [one[0] for group, found in ends if group.private for one in found], ends)
    title, key = f"{name} over epsilon", "f-tradeoff"
    said = "; ".join(
        f"{group.label}: {measured(statistics.median(one[1] for one in found))}" for group, found in ends
    )
    text = f"{name} at the end, as the median over seeds: {said}."
    if seen:
        larger = "; ".join(f"{run.name}: {alone(run.epsilon_alone or 0.0)}" for runs in seen for run in runs)
        text += f" {_HOLLOW} {larger}."
    return framed(axes, key, title, text)


def _parts_seen(run: RunFacts) -> bool:
    """Whether somebody saw each part of its secure sums; its epsilon does not hold against them."""
    return run.epsilon_alone is not None and not parts_hidden(run)


def _frame(axes: "Axes", epsilons: Sequence[float], ends: Sequence[Ends]) -> None:
    """Axis limits from tick to tick, with room for markers and for what was measured."""
    up = [one[1] for _, found in ends for one in found]
    room = 0.08 * (max(up) - min(up)) or 0.05 * abs(up[0]) or 0.05
    largest = max(filter(math.isfinite, epsilons), default=0.0) or 1.0
    across, along = _ticks(0.0, 1.08 * largest), _ticks(min(up) - room, max(up) + room)
    axes.set(xlim=(across[0], across[-1]), xticks=across, ylim=(along[0], along[-1]), yticks=along)


def _ticks(least: float, largest: float) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    return [float(one) for one in MaxNLocator(nbins=6).tick_values(least, largest)]


def _end(run: RunFacts, value: Value) -> tuple[float, float] | None:
    found = [one for one in run.history if (last := value(one)) is not None and math.isfinite(last)]
    return (found[-1].epsilon, value(found[-1]) or 0.0) if found else None
