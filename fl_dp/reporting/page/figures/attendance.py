"""How many clients trained, declined, failed or were idle in each round."""

from fl_dp.reporting.page.facts import STATUSES, Run
from fl_dp.reporting.page.figures.canvas import (
    HATCHES,
    INK,
    LINES,
    Figure,
    as_svg,
    legend,
    new_axes,
    whole_numbers,
)

_MOST_BARS = 60  # of more rounds a bar stands for several


def attendance(run: Run) -> Figure | None:
    """None without rounds."""
    if not run.history:
        return None
    title, key = "Who trained", "f-attendance"
    axes = new_axes("round", "clients", len(STATUSES))
    step = -(-len(run.history) // _MOST_BARS)
    shown = run.history[::step]
    numbers = [one.number for one in shown]
    bottom = [0] * len(shown)
    for place, status in enumerate(STATUSES):
        counts = [one.counts[place] for one in shown]
        if any(counts):
            axes.bar(
                numbers, counts, width=0.8 * step, bottom=bottom, label=status, color=LINES[place],
                hatch=HATCHES[place], edgecolor=INK, linewidth=0.5,
            )  # fmt: skip
        bottom = [low + count for low, count in zip(bottom, counts, strict=True)]
    whole_numbers(axes)
    legend(axes)
    totals = [sum(one.counts[place] for one in run.history) for place in range(len(STATUSES))]
    said = ", ".join(f"{status} {total:,}" for status, total in zip(STATUSES, totals, strict=True))
    text = f"Of all clients in all rounds: {said}." + (f" Every {step}th round is drawn." if step > 1 else "")
    return Figure(key, title, text, as_svg(axes, key, title, text))
