"""Epsilon over the rounds: of each client, or of many their spread, and of the federation, beside budgets."""

import math

from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.figures.canvas import (
    GRID,
    INK,
    LINES,
    Figure,
    framed,
    round_axes,
    style,
    thinned,
)
from fl_dp.reporting.page.numbers import epsilon
from fl_dp.reporting.page.over import over_runs_in_short
from fl_dp.reporting.page.round_facts import FEW, QUANTILES
from fl_dp.reporting.page.table import Table

_NAMED = 6  # clients that a legend can name
_LONGEST = 16  # characters of a name in a legend
_SPREAD = ("least", "10 %", "median", "90 %", "largest")


def budget(run: Run) -> Figure | None:
    """None without a round whose epsilon is finite, as in a run without privacy."""
    rounds = [one for one in run.history if math.isfinite(one.epsilon) and all(map(_drawn, one.epsilons))]
    if not rounds or not run.private:
        return None
    rounds = list(thinned(rounds))
    title, key = "Epsilon over the rounds", "f-budget"
    numbers = [one.number for one in rounds]
    few = len(run.clients) <= FEW
    series = list(zip(*(one.epsilons for one in rounds), strict=True))
    axes = round_axes(
        f"epsilon, {over_runs_in_short(run)}", 4 if not few else 1 + len(series) * (len(series) <= _NAMED)
    )
    if few:
        for place, values in enumerate(series):
            label = _short(run.clients[place].name) if len(series) <= _NAMED else None
            axes.plot(numbers, values, label=label, **style(place, len(numbers), width=1.2))
    elif series:
        least, low, middle, high, largest = series
        axes.fill_between(numbers, least, largest, color=GRID, linewidth=0, label="least to largest")
        axes.fill_between(numbers, low, high, color=LINES[0], alpha=0.35, linewidth=0, label="10 % to 90 %")
        axes.plot(numbers, middle, label="median client", **style(1, len(numbers)))
    axes.plot(numbers, [one.epsilon for one in rounds], color=INK, linewidth=2.2, label="federation")
    for limit in _limits(run):
        axes.axhline(limit, color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
    axes.set_ylim(bottom=0)
    text = _text(run, rounds[-1].epsilon)
    return framed(axes, key, title, text, _table(run, few))


def _drawn(value: float) -> bool:
    return not math.isinf(value)  # nan: it was not there yet


def _short(name: str) -> str:
    """matplotlib leaves out what begins with an underscore."""
    short = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return f" {short}" if short.startswith("_") else short


def _limits(run: Run) -> list[float]:
    """The least and the largest of the budgets."""
    budgets = [one.budget for one in run.counted if one.budget is not None]
    return sorted({min(budgets), max(budgets)}) if budgets else []


def _text(run: Run, last: float) -> str:
    limits = " and ".join(map(epsilon, _limits(run)))
    more = f" With a round that was begun and not finished it is {epsilon(run.epsilon)}." if run.begun else ""
    whose = "" if run.local else "' own sites"
    return (
        f"After the last round the federation's epsilon is {epsilon(last)}.{more} "
        f"Budgets of the clients{whose}, the dotted lines across: {limits or 'not known'}. "
        f"{'A line for each client.' if len(run.clients) <= FEW else 'Bands show how clients are spread.'}"
    )


def _table(run: Run, few: bool) -> Table:
    names = tuple(one.name for one in run.clients) if few else _SPREAD[: len(QUANTILES)]
    rows = tuple(
        (str(one.number), epsilon(one.epsilon), *("" if math.isnan(v) else epsilon(v) for v in one.epsilons))
        for one in run.history
    )
    return Table("epsilons", "Epsilon after each round", ("round", "federation", *names), rows)
