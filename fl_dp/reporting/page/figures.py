"""The three figures of a page: quality and epsilon by round, spending by client, and the model's answers."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from fl_dp.reporting.page.canvas import (
    GRID,
    INK,
    LINES,
    Figure,
    columns_of,
    drawing,
    framed,
    new_axes,
    short,
    style,
    thinned,
)
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import epsilon, measured
from fl_dp.reporting.page.outcomes import Histogram, Outcomes, outcomes_of
from fl_dp.reporting.reports import Estimate

_RIGHT = 0.1  # of a figure's width, for a second scale
_FEW = 20  # clients with a bar each
_LONGEST, _LONGEST_LABEL = 18, 40  # characters of a name beside the axes, and along one
_STRONGEST = 0.5  # of a cell's colour: the number in it must be read, in light and dark
_LEFT, _BESIDE = (0.55, 0.48, 1.7, 1.7), (3.0, 0.48, 1.7, 1.7)  # two axes of one figure


def figures(run: RunFacts) -> list[Figure]:
    """The figures that have something to show."""
    with drawing():
        return [one for one in (over_rounds(run), spending(run), answers(run)) if one is not None]


def over_rounds(run: RunFacts) -> Figure | None:
    """The first metric, or else the loss, and epsilon; None if no round has either."""
    name = run.first
    points = [(one.report.round, value) for one in run.history if (value := one.measured(name)) is not None]
    spent = [
        (one.report.round, one.report.epsilon)
        for one in run.history
        if run.private and one.report.epsilon < math.inf
    ]
    lines = [(short(name, _LONGEST_LABEL), points)] * bool(points) + [("epsilon", spent)] * bool(spent)
    if not lines:
        return None
    axes = new_axes("round", lines[0][0], len(lines))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    if len(lines) > 1:
        place = axes.get_position()
        axes.set_position((place.x0, place.y0, place.width - _RIGHT, place.height))
    for number, (label, found) in enumerate(lines):
        look, drawn = style(number, len(found)), thinned(found)
        if number:
            axes.plot([], [], label=label, **look)  # the legend is of the first axes alone
            right = axes.twinx()
            right.spines["right"].set_visible(True)
            right.set_ylabel(label)
        (right if number else axes).plot(*zip(*drawn, strict=True), label=label, **look)
        if label == "epsilon":
            (right if number else axes).set_ylim(bottom=0)
    ends = [f"{name} is {measured(points[-1][1])}"] if points else []
    ends += [f"epsilon is {epsilon(spent[-1][1])}"] if spent else []
    text = f"After the last round {' and '.join(ends)}."
    if run.said.model == "best" and run.said.model_round:
        axes.axvline(run.said.model_round, color=INK, linestyle=":", linewidth=1.2)
        text += f" Dotted: round {run.said.model_round}, whose model was kept."
    return framed(axes, "f-rounds", f"{' and '.join(label for label, _ in lines)} by round", text)


def spending(run: RunFacts) -> Figure | None:
    """Each client's epsilon in this run and with other runs, and its budget; many clients by rank."""
    found = [
        (name, one.cost.epsilon, one.epsilon, one.budget)
        for name, one in run.clients.items()
        if math.isfinite(one.epsilon)
    ]
    if not run.private or not any(total for _, _, total, _ in found):
        return None
    if few := len(found) <= _FEW:
        names = [short(name, _LONGEST) for name, *_ in found]
        left = 0.3 + 0.075 * max(map(len, names))
        axes = new_axes("epsilon", "", 3, place=(left, 0.48, 4.6 - left, 0.3 + 0.24 * len(found)))
        at = range(len(found))
        axes.barh(at, [total for _, _, total, _ in found], height=0.7, color=GRID, label="with other runs")
        axes.barh(at, [own for _, own, _, _ in found], height=0.35, color=LINES[0], label="this run")
        axes.plot([budget for *_, budget in found], at, "|", color=INK, ms=11, mew=2, label="budget")
        axes.set(ylim=(len(found) - 0.4, -0.6), yticks=at)
        axes.set_yticklabels(names, fontsize=8)
        axes.set_xlim(left=0)
    else:
        found.sort(key=lambda one: -one[1])
        axes = new_axes("clients, by what they have spent in this run", "epsilon", 3)
        for number, label in enumerate(("this run", "with other runs", "budget")):
            drawn = thinned([(place, one[1 + number]) for place, one in enumerate(found, 1)])
            axes.plot(*zip(*drawn, strict=True), label=label, **style(number, len(drawn)))
        axes.set_ylim(bottom=0)
    own = [one[1] for one in found]
    left_out = len(run.clients) - len(found)
    text = f"From {epsilon(min(own))} to {epsilon(max(own))} in this run."
    text += f" Not drawn: {left_out:,} for whom no epsilon holds." if left_out else ""
    return framed(axes, "f-spending", f"Epsilon by client{'' if few else ', by rank'}", text)


def answers(run: RunFacts) -> Figure | None:
    """Confusion, or for two classes ROC and calibration; on the server's test data, or else the sites'."""
    on, found = "the server's test data", run.outcomes
    if not found.classes and run.site_metrics:
        on = "the sites' own test records"
        found = outcomes_of(run.site_metrics.outcomes, "rounds.jsonl")
    if found.confusion:
        return _confusion(on, found)
    return _roc(on, found.scores) if found.scores else None


def _roc(on: str, scores: Sequence[Histogram]) -> Figure:
    names = [short(one.of_class, _LONGEST) for one in scores]
    several = len(scores) > 1
    axes = new_axes("false alarms", "recall", len(names) * several, columns_of(names), _LEFT)
    sheet: Any = axes.figure
    within = [one / size for one, size in zip(_BESIDE, [4.8, sheet.get_figheight()] * 2, strict=True)]
    beside: Axes = sheet.add_axes((within[0], within[1], within[2], within[3]))
    beside.grid(True, linewidth=0.6)
    beside.set(xlabel="score", ylabel="share of the class")
    for one in (axes, beside):
        one.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        one.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=1.0)
    halves = ""
    for place, scored in enumerate(scores):
        look = style(place, 1) | {"markersize": 3}
        points = [(point.others, point.own) for point in scored.curve()]
        told = [(x.value, y.value) for x, y in points if x.value is not None and y.value is not None]
        if told:  # no line if noise hides every point: it would look like guessing by chance
            label = names[place] if several else None
            axes.plot(*zip((0.0, 0.0), *told, (1.0, 1.0), strict=True), label=label, **look)
        shares = list(zip(scored.places, scored.calibration(), strict=True))
        shown = [(at, share.value) for at, share in shares if share.value is not None]
        beside.plot([at for at, _ in shown], [up for _, up in shown], **look)
        if not several:
            for at, share in shares:
                if share.low is not None and share.high is not None:
                    beside.vlines(at, share.low, share.high, color=LINES[0], linewidth=1.0, alpha=0.6)
            halves = "".join(
                f" At score 0.5: recall of {scored.of_class} {_ends(point.own)}, false alarms "
                f"{_ends(point.others)}."
                for point in scored.curve()
                if point.least == 0.5
            )
    text = f"On {on}.{halves} Dotted: a guess by chance; scores that are as often right as they say."
    return framed(axes, "f-answers", f"ROC and calibration on {on}", text)


def _ends(found: Estimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "not reported"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _confusion(on: str, found: Outcomes) -> Figure:
    """A row for each class: the per cent of its records that were predicted as each class."""
    names, side = [short(one, _LONGEST) for one in found.classes], len(found.classes)
    left = 0.35 + 0.075 * max(map(len, names))
    axes = new_axes("predicted", "class", place=(left, left, 4.67 - left, min(3.4, max(1.2, 0.34 * side))))
    axes.grid(False)
    for i, row in enumerate(found.confusion):
        for j, count in enumerate(row):
            part = count / sum(row) if sum(row) else 0.0
            axes.add_patch(
                Rectangle((j, i), 1, 1, facecolor=LINES[0], alpha=_STRONGEST * part, edgecolor="none")
            )
            if part >= 0.005 or side <= 6:
                size = 9 if side <= 10 else 6.5
                axes.text(j + 0.5, i + 0.5, f"{100 * part:.0f}", ha="center", va="center", fontsize=size)
    ticks = [i + 0.5 for i in range(side)]
    axes.set(xlim=(0, side), ylim=(side, 0), xticks=ticks, yticks=ticks)
    axes.set_xticklabels(names, rotation=90, fontsize=8)
    axes.set_yticklabels(names, fontsize=8)
    for i in range(1, side):
        axes.axhline(i, color=GRID, linewidth=0.8)
        axes.axvline(i, color=GRID, linewidth=0.8)
    right = [(row[i] / sum(row), found.classes[i]) for i, row in enumerate(found.confusion) if sum(row)]
    worst = "Least often right: {1}, {0:.0%}.".format(*min(right)) if right else ""
    text = f"On {on}: per cent of a class, a row, by what was predicted. {worst}"
    return framed(axes, "f-answers", f"Confusion on {on}", text)
