"""What an epsilon buys: the first metric over the federation's epsilon, round by round."""

import math

from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.figures.canvas import Figure, framed, new_axes, style, thinned
from fl_dp.reporting.page.numbers import epsilon, measured


def tradeoff(run: Run) -> Figure | None:
    """None without privacy, or where fewer than two rounds were measured."""
    name, points = first_metric(run)
    if not run.private or len(points) < 2:
        return None
    title, key = f"{name} over epsilon", "f-tradeoff"
    axes = new_axes(f"epsilon of the federation, {'this run' if run.of_this_run else 'over all runs'}", name)
    drawn = thinned(points)
    axes.plot(*zip(*drawn, strict=True), **style(0, len(drawn)))
    (start, low), (end, high) = points[0], points[-1]
    text = (
        f"At epsilon {epsilon(start)} {name} is {measured(low)}, at epsilon {epsilon(end)} it is "
        f"{measured(high)}."
    )
    return framed(axes, key, title, text)


def first_metric(run: Run) -> tuple[str, list[tuple[float, float]]]:
    """Its name, and (epsilon, value) of each round where both are finite; the loss where there is none."""
    name = run.history[0].metrics[0][0] if run.history and run.history[0].metrics else "loss"
    points = []
    for one in run.history:
        value = dict(one.metrics).get(name) if name != "loss" else one.loss
        if value is not None and math.isfinite(value) and math.isfinite(one.epsilon):
            points.append((one.epsilon, value))
    return name, points
