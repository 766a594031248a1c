"""Where the seconds went: each round, and what was not in any."""

from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.figures.canvas import (
    HATCHES,
    INK,
    LINES,
    MOST_BARS,
    Figure,
    framed,
    round_axes,
    thinned,
)
from fl_dp.reporting.page.numbers import seconds


def time_spent(run: Run) -> Figure | None:
    """None without rounds."""
    if not run.history:
        return None
    title, key = "Seconds of each round", "f-seconds"
    axes = round_axes("seconds")
    shown = thinned(run.history, MOST_BARS)
    axes.bar(
        [one.number for one in shown], [one.seconds for one in shown], color=LINES[0], edgecolor=INK,
        linewidth=0.5, hatch=HATCHES[0], width=0.8 * max(1, len(run.history) // len(shown)),
    )  # fmt: skip
    text = (
        f"{where_time_went(run)} The longest round took {seconds(max(one.seconds for one in run.history))}."
    )
    return framed(axes, key, title, text)


def where_time_went(run: Run) -> str:
    """Rounds, with their wait for clients, and the rest."""
    inside = sum(one.seconds for one in run.history)
    if run.seconds is None:
        return f"Rounds took {seconds(inside)}, the wait for clients included."
    outside = max(0.0, run.seconds - inside)
    return (
        f"The run took {seconds(run.seconds)}: rounds {seconds(inside)}, their wait for clients included; "
        f"start, end and the time between rounds {seconds(outside)}."
    )
