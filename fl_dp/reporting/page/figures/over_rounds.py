"""What is measured on the server's test data, over the rounds: each metric, and the loss."""

import math

from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.figures.canvas import Figure, framed, round_axes, style, thinned
from fl_dp.reporting.page.numbers import measured

MOST = 4  # metrics that have a figure


def quality(run: Run) -> list[Figure]:
    """A figure for each of the first metrics, and one for the loss; none where nothing was measured."""
    names = [name for name, _ in run.history[0].metrics][:MOST] if run.history else []
    lines = [(name, [dict(one.metrics).get(name) for one in run.history]) for name in names]
    lines.append(("loss", [one.loss for one in run.history]))
    found = [_figure(run, name, values) for name, values in lines]
    return [one for one in found if one is not None]


def _figure(run: Run, name: str, values: list[float | None]) -> Figure | None:
    points = [
        (one.number, value) for one, value in zip(run.history, values, strict=True) if value is not None
    ]
    if not points or not all(math.isfinite(value) for _, value in points):
        return None
    title = f"{name} over the rounds"
    ends = dict([points[0], points[-1]])  # of one round, that one
    found = ", ".join(f"{measured(value)} after round {number}" for number, value in ends.items())
    text = f"{name} on the server's test data: {found}."
    axes = round_axes(name)
    points = list(thinned(points))
    axes.plot(*zip(*points, strict=True), **style(0, len(points)))
    if run.kept == "best" and run.kept_round:
        axes.axvline(run.kept_round, color="#000001", linestyle=":", linewidth=1.2)
        text += f" The model that was kept is of round {run.kept_round}, the dotted line."
    key = f"f-{'loss' if name == 'loss' else 'metric' + str(_place(run, name))}"
    return framed(axes, key, title, text)


def _place(run: Run, name: str) -> int:
    return [one for one, _ in run.history[0].metrics].index(name)
