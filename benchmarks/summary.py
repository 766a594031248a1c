"""What many measurements say: a row for each model and engine, geometric means over the models."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

BASELINE = "sgd"
MIB = 2**20

Measurement = dict[str, Any]  # what benchmarks/measure.py prints


@dataclass(frozen=True, slots=True)
class Numbers:
    """Medians over `repeats` processes; the ratios are to plain SGD of the same repeat, None without it."""

    repeats: int
    step_seconds: float
    step_ratio: float | None
    peak_bytes: float
    peak_ratio: float | None
    further_peak_ratio: float | None
    first_seconds: float
    first_over_further: float


@dataclass(frozen=True, slots=True)
class Row:
    """One engine on one model; without numbers, `status` is one word for it and `reason` the engine's own."""

    model: str
    engine: str
    batch: int
    status: str
    reason: str
    numbers: Numbers | None


def row_of(
    model: str, engine: str, batch: int, seen: Sequence[Measurement], baseline: Sequence[Measurement]
) -> Row:
    """`seen` and `baseline` hold one measurement for each repeat, in the same order."""
    wrong = next((m for m in seen if m["status"] != "ok"), None)
    if wrong is not None:
        return Row(model, engine, batch, wrong["status"], wrong["reason"], None)
    numbers = Numbers(
        repeats=len(seen),
        step_seconds=statistics.median(m["step_seconds"] for m in seen),
        step_ratio=_ratio(seen, baseline, "step_seconds"),
        peak_bytes=statistics.median(m["peak_bytes"] for m in seen),
        peak_ratio=_ratio(seen, baseline, "peak_bytes"),
        further_peak_ratio=_ratio(seen, baseline, "further_peak_bytes"),
        first_seconds=statistics.median(m["first_seconds"] for m in seen),
        first_over_further=statistics.median(m["first_seconds"] / m["step_seconds"] for m in seen),
    )
    return Row(model, engine, batch, "ok", "", numbers)


def _ratio(seen: Sequence[Measurement], baseline: Sequence[Measurement], field: str) -> float | None:
    """None without a baseline, or where a step is too small for its memory to be seen."""
    if len(baseline) != len(seen) or any(b["status"] != "ok" for b in baseline):
        return None
    if not all(m[field] > 0 for m in (*seen, *baseline)):
        return None
    return statistics.median(m[field] / b[field] for m, b in zip(seen, baseline, strict=True))


def table_of_rows(rows: Sequence[Row]) -> Table:
    """In Markdown, so that it can be pasted into the README.

    after 1st: the peak of all steps but the first, which also measures kernels, over plain SGD's.
    """
    table = Table(box=box.MARKDOWN)
    for heading in ("model", "batch", "engine"):
        table.add_column(heading, no_wrap=True)
    for heading in ("step ms", "/ SGD", "peak MiB", "/ SGD", "after 1st", "1st step s", "/ further"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.model, str(row.batch), row.engine, *_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    numbers = row.numbers
    if numbers is None:
        return (row.status,)
    return (
        f"{1e3 * numbers.step_seconds:.0f}",
        _two_digits(numbers.step_ratio),
        f"{numbers.peak_bytes / MIB:.0f}",
        _two_digits(numbers.peak_ratio),
        _two_digits(numbers.further_peak_ratio),
        f"{numbers.first_seconds:.2f}",
        f"{numbers.first_over_further:.1f}",
    )


def _two_digits(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def table_of_means(rows: Sequence[Row]) -> Table:
    """Geometric means over the models that an engine could run, and how many those were."""
    table = Table(box=box.MARKDOWN)
    table.add_column("engine", no_wrap=True)
    for heading in ("models", "step / SGD", "worst", "peak / SGD", "worst"):
        table.add_column(heading, justify="right", no_wrap=True)
    for engine in dict.fromkeys(row.engine for row in rows if row.engine != BASELINE):
        numbers = [row.numbers for row in rows if row.engine == engine and row.numbers is not None]
        steps = [n.step_ratio for n in numbers if n.step_ratio is not None]
        peaks = [n.peak_ratio for n in numbers if n.peak_ratio is not None]
        if steps and peaks:
            table.add_row(engine, str(len(steps)), *_mean_and_worst(steps), *_mean_and_worst(peaks))
    return table


def _mean_and_worst(ratios: Sequence[float]) -> tuple[str, str]:
    return _two_digits(statistics.geometric_mean(ratios)), _two_digits(max(ratios))
