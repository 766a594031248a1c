"""The figures of one run: what it measured and spent over its rounds, who trained, and how long it took."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fl_dp.records import CLIENT_STATUSES
from fl_dp.reporting.page.facts import Round, RunFacts
from fl_dp.reporting.page.figures.canvas import (
    GRID,
    HATCHES,
    INK,
    LINES,
    MOST_BARS,
    Figure,
    framed,
    new_axes,
    round_axes,
    short,
    style,
    thinned,
    whole_numbers,
)
from fl_dp.reporting.page.numbers import epsilon, measured, seconds
from fl_dp.reporting.page.over import over_runs_in_short
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.page.round_facts import FEW

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_METRICS = 4  # with a figure
_RIGHT = 0.1  # of a figure's width, for a second scale
_NAMED = 6  # clients named in a legend
_LONGEST = 16  # characters of a name in a legend
_SPREAD = ("least", "10 %", "median", "90 %", "largest")


def quality(run: RunFacts) -> list[Figure]:
    """A figure for each of the first metrics, and one for the loss; none if nothing was measured."""
    names = [*run.history[0].metrics][:_MOST_METRICS] if run.history else []
    lines = [(name, [one.metrics.get(name) for one in run.history]) for name in names]
    lines.append(("loss", [one.loss for one in run.history]))
    found = [_line(run, f"f-metric{place}", *line) for place, line in enumerate(lines)]
    return [one for one in found if one is not None]


def _line(run: RunFacts, key: str, name: str, values: list[float | None]) -> Figure | None:
    points = [
        (one.number, value) for one, value in zip(run.history, values, strict=True) if value is not None
    ]
    if not points or not all(math.isfinite(value) for _, value in points):
        return None
    ends = dict([points[0], points[-1]])  # a single round if there is only one
    found = ", ".join(f"{measured(value)} after round {number}" for number, value in ends.items())
    text = f"{name} on the server's test data: {found}."
    axes = round_axes(name)
    points = list(thinned(points))
    axes.plot(*zip(*points, strict=True), **style(0, len(points)))
    if run.kept == "best" and run.kept_round:
        axes.axvline(run.kept_round, color=INK, linestyle=":", linewidth=1.2)
        text += f" The dotted line is round {run.kept_round}, whose model was kept."
    return framed(axes, "f-loss" if name == "loss" else key, f"{name} over the rounds", text)


def budget(run: RunFacts) -> Figure | None:
    """Epsilon of each client, or for many their spread, and of the federation, with the budgets.

    None without a round whose epsilon is finite, as in a run without privacy.
    """
    rounds = thinned(
        [one for one in run.history if math.isfinite(one.epsilon) and math.inf not in one.epsilons]
    )
    if not rounds or not run.private:
        return None
    numbers = [one.number for one in rounds]
    few = len(run.clients) <= FEW
    series = list(zip(*(one.epsilons for one in rounds), strict=True))
    axes = round_axes(
        f"epsilon, {over_runs_in_short(run)}", 4 if not few else 1 + len(series) * (len(series) <= _NAMED)
    )
    if few:
        for place, values in enumerate(series):
            label = short(run.clients[place].name, _LONGEST) if len(series) <= _NAMED else None
            axes.plot(numbers, values, label=label, **style(place, len(numbers), width=1.2))
    elif series:
        least, low, middle, high, largest = series
        axes.fill_between(numbers, least, largest, color=GRID, linewidth=0, label="least to largest")
        axes.fill_between(numbers, low, high, color=LINES[0], alpha=0.35, linewidth=0, label="10 % to 90 %")
        axes.plot(numbers, middle, label="median client", **style(1, len(numbers)))
    axes.plot(numbers, [one.epsilon for one in rounds], color=INK, linewidth=2.2, label="federation")
    budgets = [one.budget for one in run.counted if one.budget is not None]
    limits = sorted({min(budgets), max(budgets)}) if budgets else []
    for limit in limits:
        axes.axhline(limit, color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
    axes.set_ylim(bottom=0)
    of_sites = "" if run.local else "' own sites"
    more = (
        f" Including a round that was begun and not finished, it is {epsilon(run.epsilon)}."
        if run.begun
        else ""
    )
    text = (
        f"After the last round the federation's epsilon is {epsilon(rounds[-1].epsilon)}.{more} The "
        f"horizontal dotted lines are the budgets of the clients{of_sites}: "
        f"{' and '.join(map(epsilon, limits)) or 'not known'}. "
        f"{'Each client has a line.' if few else 'Bands show the spread of the clients.'}"
    )
    return framed(axes, "f-budget", "Epsilon over the rounds", text, _epsilons(run, few))


def _epsilons(run: RunFacts, few: bool) -> Table:
    names = tuple(one.name for one in run.clients) if few else _SPREAD
    rows = tuple(
        (str(one.number), epsilon(one.epsilon), *("" if math.isnan(v) else epsilon(v) for v in one.epsilons))
        for one in run.history
    )
    return Table("epsilons", "Epsilon after each round", ("round", "federation", *names), rows)


def tradeoff(run: RunFacts) -> Figure | None:
    """Quality against cost: the first metric, or else the loss, over the federation's epsilon.

    None without privacy, or if fewer than two rounds were measured.
    """
    name = next(iter(run.history[0].metrics), "loss") if run.history else "loss"
    points = [
        (one.epsilon, value)
        for one in run.history
        if (value := one.measured(name)) is not None and math.isfinite(value) and math.isfinite(one.epsilon)
    ]
    if not run.private or len(points) < 2:
        return None
    axes = new_axes(f"epsilon of the federation, {over_runs_in_short(run)}", name)
    drawn = thinned(points)
    axes.plot(*zip(*drawn, strict=True), **style(0, len(drawn)))
    (start, low), (end, high) = points[0], points[-1]
    text = (
        f"At epsilon {epsilon(start)} {name} is {measured(low)}, at epsilon {epsilon(end)} it is "
        f"{measured(high)}."
    )
    return framed(axes, "f-tradeoff", f"{name} over epsilon", text)


def glance(run: RunFacts) -> Figure | None:
    """The first metric, or else the loss, and epsilon over the rounds; None if fewer than two have one."""
    name = next(iter(run.history[0].metrics), "loss") if run.history else "loss"
    points = [(one.number, value) for one in run.history if (value := one.measured(name)) is not None]
    if len(points) < 2 or not all(math.isfinite(value) for _, value in points):
        return None
    spent = [(one.number, one.epsilon) for one in run.history if run.private and math.isfinite(one.epsilon)]
    axes = round_axes(name, 1 + bool(spent))
    drawn = thinned(points)
    axes.plot(*zip(*drawn, strict=True), label=name, **style(0, len(drawn)))
    if spent:
        drawn = thinned(spent)
        axes.plot([], [], label="epsilon", **style(1, 1))  # the legend is of the first axes alone
        place = axes.get_position()
        axes.set_position((place.x0, place.y0, place.width - _RIGHT, place.height))
        right = axes.twinx()
        right.plot(*zip(*drawn, strict=True), **style(1, len(drawn)))
        right.set_ylim(bottom=0)
        right.spines["right"].set_visible(True)
        right.set_ylabel("epsilon")
    text = f"After the last round {name} is {measured(points[-1][1])}."
    return framed(axes, "f-glance", f"{name}{' and epsilon' * bool(spent)} over the rounds", text)


def attendance(run: RunFacts) -> Figure | None:
    """How many clients trained, declined, failed or were idle in each round; None without rounds."""
    if not run.history:
        return None
    axes = round_axes("clients", len(CLIENT_STATUSES))
    whole_numbers(axes)
    drawn = _bars(axes, run.history, CLIENT_STATUSES, lambda one: one.counts)
    totals = map(sum, zip(*(one.counts for one in run.history), strict=True))
    said = ", ".join(f"{status} {total:,}" for status, total in zip(CLIENT_STATUSES, totals, strict=True))
    text = f"All clients in all rounds: {said}."
    if run.begun:
        text += " A round that was begun and not finished is not counted."
    if drawn < len(run.history):
        text += f" The figure shows {drawn} of {len(run.history)} rounds."
    return framed(axes, "f-attendance", "Who trained", text)


def time_spent(run: RunFacts) -> Figure | None:
    """None without rounds."""
    if not run.history:
        return None
    axes = round_axes("seconds")
    _bars(axes, run.history, (None,), lambda one: (one.seconds,))
    longest = seconds(max(one.seconds for one in run.history))
    text = f"{where_time_went(run)} The longest round took {longest}."
    return framed(axes, "f-seconds", "Seconds of each round", text)


def where_time_went(run: RunFacts) -> str:
    """Time of the rounds, with their wait for clients, and of the rest."""
    inside = sum(one.seconds for one in run.history)
    if run.seconds is None:
        return f"Rounds took {seconds(inside)}, including the wait for clients."
    outside = max(0.0, run.seconds - inside)
    return (
        f"The run took {seconds(run.seconds)}: rounds {seconds(inside)}, including the wait for clients; "
        f"start, end and the time between rounds {seconds(outside)}."
    )


def _bars(
    axes: "Axes",
    rounds: Sequence[Round],
    labels: Sequence[str | None],
    heights: Callable[[Round], Sequence[float]],
) -> int:
    """A bar for each round, or for a sample of very many, with a part for each label that is not always 0.

    heights: of a round's parts. Returns how many rounds are drawn.
    """
    shown = thinned(rounds, MOST_BARS)
    width = 0.8 * max(1, len(rounds) // len(shown))
    numbers, bottom = [one.number for one in shown], [0.0] * len(shown)
    for place, label in enumerate(labels):
        parts = [heights(one)[place] for one in shown]
        if any(parts) or label is None:
            axes.bar(
                numbers, parts, width=width, bottom=bottom, label=label, color=LINES[place],
                hatch=HATCHES[place], edgecolor=INK, linewidth=0.5,
            )  # fmt: skip
        bottom = [low + part for low, part in zip(bottom, parts, strict=True)]
    return len(shown)
