"""The figures of what a model answered: ROC, calibration, confusion, and metrics of subgroups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl_dp.reporting.page.by_part import ALL, BY_PART
from fl_dp.reporting.page.curves import Source, calibration_table, confusion_table, curve_table, sources
from fl_dp.reporting.page.facts import Histogram, RunFacts
from fl_dp.reporting.page.figures.canvas import (
    GRID,
    INK,
    LINES,
    PLACE,
    Figure,
    columns_of,
    framed,
    new_axes,
    short,
    style,
)
from fl_dp.reporting.page.intervals import Share
from fl_dp.reporting.page.outcomes import Confusion, calibration, confusion, curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SQUARE = (*PLACE[:3], 3.2)
_MOST_WHISKERS = 15  # points with an interval, which more would cover
_MOST_PARTS = 24  # subgroups in a figure
_LONGEST = 18  # characters of a name beside the axes
_MOST_NAMED = 6  # classes in a text
_STRONGEST = 0.5  # of a cell's colour: the number in it must be read, in light and dark
Values = list[tuple[str, float | None]]  # of each part, in the order of the figure


def outcome_figures(run: RunFacts) -> list[Figure]:
    """Those of each source that has what they show, and of the subgroups."""
    found: list[Figure | None] = []
    for source in sources(run):
        found += [roc(source), calibrated(source), confused(source)] if source.outcomes.classes else []
    found.append(subgroups(run.tested, _of_server(run)))
    return [one for one in found if one is not None]


def roc(source: Source) -> Figure | None:
    """Recall over false alarms, a line for each class with scores; None without any."""
    scores = source.outcomes.scores
    if not scores:
        return None
    axes = _of_shares("false alarms", "recall", scores)
    axes.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=1.0)
    hidden = True
    for place, one in enumerate(scores):
        points = [
            point for point in curve(one) if point.own.value is not None and point.others.value is not None
        ]
        if not points:  # no line: it would look like a guess by chance
            continue
        hidden = False
        across = [0.0, *(point.others.value or 0.0 for point in points), 1.0]
        up = [0.0, *(point.own.value or 0.0 for point in points), 1.0]
        axes.plot(across, up, label=_label(scores, one), **style(place, 1))
        if len(scores) == 1:
            for point in points[:: 1 + len(points) // _MOST_WHISKERS]:
                _whisker(axes, point.others, point.own)
    text = (
        f"On {source.on}: the share of a class that is found (recall) over the share of the others that "
        f"is taken for it (false alarms), as the score from which it is predicted falls.{_at_half(scores)} "
        f"{'Noise hides every point. ' if hidden else _intervals(scores)}"
        "The dotted line is a guess by chance."
    )
    return framed(axes, f"f-roc-{source.key}", f"ROC on {source.on}", text, curve_table(source))


def calibrated(source: Source) -> Figure | None:
    """The share of a class over the score; None without scores."""
    scores = source.outcomes.scores
    if not scores:
        return None
    axes = _of_shares("score: the probability that the model gives", "share of the class", scores)
    axes.plot([0, 1], [0, 1], color=INK, linestyle=":", linewidth=1.0)
    for place, one in enumerate(scores):
        shares = [(at, found) for at, found in zip(one.places, calibration(one), strict=True)]
        told = [(at, found.value) for at, found in shares if found.value is not None]
        if told:
            axes.plot(*zip(*told, strict=True), label=_label(scores, one), **style(place, 1))
        if len(scores) == 1:
            for at, found in shares:
                _whisker(axes, Share(at, at, at), found)
    text = (
        f"On {source.on}: of the records with such a score, the share that is of the class. On the dotted "
        f"line the scores are as often right as they say. {_intervals(scores)}"
        "A bin is drawn at "
        + ("the middle of its scores." if source.key == "sites" else "the mean of its scores.")
    )
    return framed(
        axes, f"f-calibration-{source.key}", f"Calibration on {source.on}", text, calibration_table(source)
    )


def confused(source: Source) -> Figure | None:
    """Of each class, how its records were answered; None if unknown."""
    rows = confusion(source.outcomes)
    names = [short(one, _LONGEST) for one in source.outcomes.classes]
    if not rows:
        return None
    side = len(names)
    left = 0.35 + 0.075 * max(map(len, names))
    height = min(3.4, max(1.2, 0.34 * side))
    bottom = 0.48 if side <= 3 else 0.35 + 0.075 * max(map(len, names))
    axes = new_axes("predicted", "class", place=(left, bottom, 4.67 - left, height))
    axes.grid(False)
    from matplotlib.patches import Rectangle

    for i, row in enumerate(rows):
        for j, (_, one) in enumerate(row):
            part = one.value or 0.0
            axes.add_patch(
                Rectangle((j, i), 1, 1, facecolor=LINES[0], alpha=_STRONGEST * part, edgecolor="none")
            )
            shown = "?" if one.value is None else f"{100 * part:.0f}"
            if part >= 0.005 or one.value is None or side <= 6:
                axes.text(
                    j + 0.5, i + 0.5, shown, ha="center", va="center", fontsize=9 if side <= 10 else 6.5
                )
    ticks = [i + 0.5 for i in range(side)]
    axes.set(xlim=(0, side), ylim=(side, 0), xticks=ticks, yticks=ticks)
    axes.set_xticklabels(names, rotation=90 if side > 3 else 0, fontsize=8)
    axes.set_yticklabels(names, fontsize=8)
    for i in range(1, side):
        axes.axhline(i, color=GRID, linewidth=0.8)
        axes.axvline(i, color=GRID, linewidth=0.8)
    right = _right(rows, source.outcomes.classes)
    text = (
        f"On {source.on}: how many per cent of the records of a class, a row, were predicted as each class. "
        f"{right}"
    )
    return framed(
        axes, f"f-confusion-{source.key}", f"Confusion on {source.on}", text, confusion_table(source)
    )


def subgroups(on: str, found: dict[str, Values]) -> Figure | None:
    """Metrics between 0 and 1 of each subgroup, a marker for each metric; None without subgroups."""
    parts = list(dict.fromkeys(name for values in found.values() for name, _ in values))[:_MOST_PARTS]
    if not parts:
        return None
    names = [short(one, _LONGEST) for one in parts]
    left, columns = 0.2 + 0.075 * max(map(len, names)), columns_of(list(found))
    place = (left, 0.48, 4.67 - left, 0.3 + 0.3 * len(parts))
    axes = new_axes("", "", len(found), columns, place)
    for number, (metric, values) in enumerate(found.items()):
        look = style(number, 1) | {"linestyle": "none"}
        shift = 0.16 * (number - (len(found) - 1) / 2)
        at = {name: parts.index(name) + shift for name, _ in values if name in parts}
        told = [(value, at[name]) for name, value in values if name in at and value is not None]
        axes.plot([across for across, _ in told], [up for _, up in told], label=metric, **look)
    axes.set(xlim=(0, 1), ylim=(len(parts) - 0.5, -0.5), yticks=range(len(parts)))
    axes.set_yticklabels(names, fontsize=8)
    worst = "; ".join(f"{metric}: {_least(values)}" for metric, values in found.items())
    text = f"On {on}. The least of each: {worst}. Their numbers are in the tables above."
    return framed(axes, "f-subgroups-server", f"Subgroups on {on}", text)


def _of_server(run: RunFacts) -> dict[str, Values]:
    """By metric; without intervals, as it is not told of how many records a subgroup is."""
    found = {}
    for metric, values in run.by_part.items():
        said = BY_PART[metric]
        if said.part == "subgroup" and said.base != "mae" and any(value is not None for _, value in values):
            name = metric.removesuffix("-per-subgroup")
            of_all = {ALL: run.metrics.get(said.base)} if said.base else {}
            found[name] = list({**of_all, **dict(values)}.items())
    return found


def _of_shares(across: str, up: str, scores: Sequence[Histogram]) -> "Axes":
    names = [short(one.of_class, _LONGEST) for one in scores]
    several = len(names) > 1
    axes = new_axes(across, up, len(names) * several, columns_of(names), _SQUARE)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return axes


def _label(scores: Sequence[Histogram], one: Histogram) -> str | None:
    """A single line needs none."""
    return short(one.of_class, _LONGEST) if len(scores) > 1 else None


def _whisker(axes: "Axes", across: Share, up: Share) -> None:
    """The intervals of a point; none if it is not told."""
    x, y = (one.value for one in (across, up))
    look: dict[str, Any] = {"color": LINES[0], "linewidth": 1.0, "alpha": 0.6}
    if x is None or y is None:
        return
    axes.hlines(y, across.low or 0.0, across.high or 0.0, **look)
    axes.vlines(x, up.low or 0.0, up.high or 0.0, **look)


def _right(rows: Confusion, names: Sequence[str]) -> str:
    """How many of each class were right; of many the least and the most."""
    shares = [(row[i][1].value, f"{_percent(row[i][1])} of {names[i]}") for i, row in enumerate(rows)]
    if len(shares) <= _MOST_NAMED:
        return f"Right were {', '.join(words for _, words in shares)}."
    told = sorted((value, words) for value, words in shares if value is not None)
    return f"Right were {told[0][1]}, the least, to {told[-1][1]}." if told else ""


def _at_half(scores: Sequence[Histogram]) -> str:
    """At the middle of the scores, by which two classes are told apart."""
    if len(scores) > 1:
        return ""
    return "".join(
        f" At the score 0.5, recall of {scores[0].of_class} is {_ends(point.own)}, of false alarms there are "
        f"{_ends(point.others)}."
        for point in curve(scores[0])
        if point.least == 0.5
    )


def _intervals(scores: Sequence[Histogram]) -> str:
    if len(scores) > 1:
        return "Intervals are in the table. "
    what = "noise and sampling" if scores[0].deviation else "sampling"
    return f"Thin lines are 95 % intervals, for {what}. "


def _ends(found: Share) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "not told"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _percent(found: Share) -> str:
    return "?" if found.value is None else f"{100 * found.value:.0f} %"


def _least(values: Values) -> str:
    told = [(value, name) for name, value in values if value is not None]
    return "{:.2f} ({})".format(*min(told)) if told else "hidden"
