"""How many clients trained, declined, failed or were idle in each round."""

from fl_dp.records import CLIENT_STATUSES
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
    whole_numbers,
)


def attendance(run: Run) -> Figure | None:
    """None without rounds."""
    if not run.history:
        return None
    title, key = "Who trained", "f-attendance"
    axes = round_axes("clients", len(CLIENT_STATUSES))
    whole_numbers(axes)
    shown = thinned(run.history, MOST_BARS)
    width = 0.8 * max(1, len(run.history) // len(shown))
    numbers = [one.number for one in shown]
    bottom = [0] * len(shown)
    for place, status in enumerate(CLIENT_STATUSES):
        counts = [one.counts[place] for one in shown]
        if any(counts):
            axes.bar(
                numbers, counts, width=width, bottom=bottom, label=status, color=LINES[place],
                hatch=HATCHES[place], edgecolor=INK, linewidth=0.5,
            )  # fmt: skip
        bottom = [low + count for low, count in zip(bottom, counts, strict=True)]
    totals = [sum(one.counts[place] for one in run.history) for place in range(len(CLIENT_STATUSES))]
    said = ", ".join(f"{status} {total:,}" for status, total in zip(CLIENT_STATUSES, totals, strict=True))
    text = f"Of all clients in all rounds: {said}."
    if run.begun:
        text += " A round that was begun and not finished is not in it."
    if len(shown) < len(run.history):
        text += f" {len(shown)} of {len(run.history)} rounds are drawn."
    return framed(axes, key, title, text)
