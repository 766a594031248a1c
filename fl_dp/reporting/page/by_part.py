"""Metrics of each class and subgroup beside those of all records, and the gap to the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from fl_dp.reporting.page.facts import Measured, RunFacts
from fl_dp.reporting.page.numbers import UNKNOWN
from fl_dp.reporting.page.pieces import Table

_RUNS = 12  # columns of a table
HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ByPart:
    """A metric reported by parts. base: the one of all records; parts: their name; best: which end."""

    base: str
    part: str
    key: str
    caption: str
    larger_is_better: bool = True


BY_PART = {
    "accuracy-per-class": ByPart("accuracy", "class", "classes", "Accuracy of each class"),
    "accuracy-per-subgroup": ByPart("accuracy", "subgroup", "subgroups", "Accuracy of each subgroup"),
    "label-accuracy-per-subgroup": ByPart(
        "label-accuracy", "subgroup", "subgroups-labels", "Label accuracy of each subgroup"
    ),
    "mae-per-subgroup": ByPart(
        "mae", "subgroup", "subgroups-errors", "Mean absolute error of each subgroup", larger_is_better=False
    ),
}


def part_tables(runs: Sequence[RunFacts]) -> tuple[Table, ...]:
    """A table for each metric reported by parts: a row for each part, a column for each run that has it."""
    found = (_table(runs, metric, said) for metric, said in BY_PART.items())
    return tuple(table for table in found if table.rows)


def _table(runs: Sequence[RunFacts], metric: str, said: ByPart) -> Table:
    """Rows for all records, for each part and for the worst; a column for each run."""
    told = [(place, run) for place, run in enumerate(runs, 1) if metric in run.by_part]
    shown = told[:_RUNS]
    heads = ("value",) if len(runs) == 1 else tuple(_head(place, run) for place, run in shown)
    values = [dict(run.by_part[metric]) for _, run in shown]
    means = [run.metrics.get(said.base) for _, run in shown]
    worst = [worst_of(run.by_part[metric], larger_is_better=said.larger_is_better) for _, run in shown]
    gaps = [
        UNKNOWN if end is None or mean is None else f"{end[1] - mean:+.4f}"
        for end, mean in zip(worst, means, strict=True)
    ]
    rows = (
        ("all", *(UNKNOWN if mean is None else f"{mean:.4f}" for mean in means)),
        *((name, *(_value(one, name) for one in values)) for name in dict.fromkeys(chain(*values))),
        ("the worst shown", *(HIDDEN if end is None else end[0] for end in worst)),
        ("the worst minus all", *gaps),
    )
    caption = f"{said.caption}, on the server's test data"
    if len(told) > _RUNS:
        caption += f", for the first {_RUNS} runs that report it"
    return Table(said.key, caption, (said.part, *heads), rows if told else (), frozenset({said.part}))


def _head(place: int, run: RunFacts) -> str:
    return f"run {place}" if run.private else f"run {place}, NOT PRIVATE"


def _value(found: Mapping[str, float | None], name: str) -> str:
    if name not in found:
        return UNKNOWN
    value = found[name]
    return HIDDEN if value is None else f"{value:.4f}"


def worst_of(values: Measured, *, larger_is_better: bool = True) -> tuple[str, float] | None:
    """Name and value of the worst part that is shown; None if none is."""
    told = [(name, value) for name, value in values if value is not None]
    if not told:
        return None
    return (min if larger_is_better else max)(told, key=lambda one: one[1])
