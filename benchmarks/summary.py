"""What many measurements say: a row for each model and engine, geometric means over the models."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.markdown import table
from benchmarks.measure import Cost
from benchmarks.processes import Ended
from benchmarks.turns import Turn

BASELINE = "sgd"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Measurement:
    """One engine's process in one repeat. baseline_first: plain SGD's first step in the same repeat."""

    first: Cost
    baseline_first: Cost
    turns: tuple[Turn, ...]

    @property
    def step_seconds(self) -> float:
        return statistics.median(turn.step.seconds for turn in self.turns)

    @property
    def step_ratio(self) -> float:
        return statistics.median(turn.ratio for turn in self.turns)

    @property
    def peak_bytes(self) -> int:
        return max(self.first.peak_bytes, *(turn.step.peak_bytes for turn in self.turns))

    @property
    def peak_ratio(self) -> float:
        baseline = max(self.baseline_first.peak_bytes, *(turn.baseline.peak_bytes for turn in self.turns))
        return self.peak_bytes / baseline

    @property
    def further_peak_ratio(self) -> float:
        """Without the first step."""
        ours = max(turn.step.peak_bytes for turn in self.turns)
        return ours / max(turn.baseline.peak_bytes for turn in self.turns)

    @property
    def first_over_further(self) -> float:
        return self.first.seconds / self.step_seconds


@dataclass(frozen=True, slots=True)
class Numbers:
    """Medians over the processes; the ratios are to plain SGD of the same repeat.

    step_ratio_range: the lowest and the highest of the processes' ratios.
    """

    processes: int
    turns: int
    step_seconds: float
    step_ratio: float
    step_ratio_range: tuple[float, float]
    peak_bytes: float
    peak_ratio: float
    further_peak_ratio: float
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


def row_of(model: str, engine: str, batch: int, seen: Sequence[Measurement], ended: Ended | None) -> Row:
    if ended is not None:
        return Row(model, engine, batch, ended.status, ended.reason, None)
    return Row(model, engine, batch, "ok", "", _numbers(seen))


def _numbers(seen: Sequence[Measurement]) -> Numbers:
    def median(of: Callable[[Measurement], float]) -> float:
        return statistics.median(map(of, seen))

    ratios = [m.step_ratio for m in seen]
    return Numbers(
        processes=len(seen),
        turns=sum(len(m.turns) for m in seen),
        step_seconds=median(lambda m: m.step_seconds),
        step_ratio=statistics.median(ratios),
        step_ratio_range=(min(ratios), max(ratios)),
        peak_bytes=median(lambda m: m.peak_bytes),
        peak_ratio=median(lambda m: m.peak_ratio),
        further_peak_ratio=median(lambda m: m.further_peak_ratio),
        first_seconds=median(lambda m: m.first.seconds),
        first_over_further=median(lambda m: m.first_over_further),
    )


def table_of_rows(rows: Sequence[Row]) -> str:
    """after 1st: the peak of all steps but the first, which also measures kernels, over plain SGD's."""
    headings = (
        "model",
        "batch",
        "engine",
        "step ms",
        "/ SGD",
        "from",
        "to",
        "peak MiB",
        "/ SGD",
        "after 1st",
        "1st step s",
        "/ further",
    )
    return table(headings, [(row.model, str(row.batch), row.engine, *_cells(row)) for row in rows], left=3)


def _cells(row: Row) -> tuple[str, ...]:
    numbers = row.numbers
    if numbers is None:
        return (row.status,)
    low, high = numbers.step_ratio_range
    return (
        f"{1e3 * numbers.step_seconds:.0f}",
        f"{numbers.step_ratio:.2f}",
        f"{low:.2f}",
        f"{high:.2f}",
        f"{numbers.peak_bytes / MIB:.0f}",
        f"{numbers.peak_ratio:.2f}",
        f"{numbers.further_peak_ratio:.2f}",
        f"{numbers.first_seconds:.2f}",
        f"{numbers.first_over_further:.1f}",
    )


def table_of_means(rows: Sequence[Row]) -> str:
    """Geometric means over the models that an engine could run, and how many those were."""
    headings = (
        "engine",
        "models",
        "step / SGD",
        "worst",
        "peak / SGD",
        "worst",
        "after 1st",
        "1st / further",
    )
    cells = []
    for engine in dict.fromkeys(row.engine for row in rows if row.engine != BASELINE):
        numbers = [row.numbers for row in rows if row.engine == engine and row.numbers is not None]
        if numbers:
            cells.append((engine, str(len(numbers)), *_means(numbers)))
    return table(headings, cells, left=1)


def _means(numbers: Sequence[Numbers]) -> tuple[str, ...]:
    steps, peaks = [n.step_ratio for n in numbers], [n.peak_ratio for n in numbers]
    found = (
        statistics.geometric_mean(steps),
        max(steps),
        statistics.geometric_mean(peaks),
        max(peaks),
        statistics.geometric_mean(n.further_peak_ratio for n in numbers),
        max(n.first_over_further for n in numbers),
    )
    return tuple(f"{number:.2f}" for number in found)
