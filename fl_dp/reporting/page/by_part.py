"""Metrics of each class and subgroup beside those of all records, and the gap to the worst."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import UNKNOWN
from fl_dp.reporting.page.pieces import Table

_RUNS = 12  # columns of a table
ALL = "all"  # as in fl_dp/tasks/parts.py, which needs PyTorch
HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ByPart:
    """A metric reported by parts. base: the one of all records; empty: it is reported as the part `ALL`.

    part: what a part is called. larger_is_better: None: neither end is the worst; the two are compared.
    """

    base: str
    part: str
    key: str
    caption: str
    larger_is_better: bool | None = True


BY_PART = {
    "accuracy-per-class": ByPart("accuracy", "class", "classes", "Accuracy of each class"),
    "accuracy-per-subgroup": ByPart("accuracy", "subgroup", "subgroups", "Accuracy of each subgroup"),
    "recall-per-subgroup": ByPart(
        "", "subgroup", "subgroups-recall", "Recall of the second class in each subgroup"
    ),
    "auroc-per-subgroup": ByPart("", "subgroup", "subgroups-auroc", "AUROC in each subgroup"),
    "selection-rate-per-subgroup": ByPart(
        "",
        "subgroup",
        "subgroups-selected",
        "Selection rate, the share predicted to be of the second class, in each subgroup",
        None,
    ),
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
    means = [
        run.metrics.get(said.base) if said.base else one.pop(ALL, None)
        for (_, run), one in zip(shown, values, strict=True)
    ]
    unknown = UNKNOWN if said.base else HIDDEN
    rows = (
        ("all", *(unknown if mean is None else f"{mean:.4f}" for mean in means)),
        *((name, *(_value(one, name) for one in values)) for name in dict.fromkeys(chain(*values))),
        *_ends(values, means, said.larger_is_better),
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


def _ends(
    values: Sequence[Mapping[str, float | None]],
    means: Sequence[float | None],
    larger_is_better: bool | None,
) -> Iterator[tuple[str, ...]]:
    """Rows of the worst part, or of how far parts are from each other; of those that are shown."""
    told = [{name: value for name, value in one.items() if value is not None} for one in values]
    if larger_is_better is None:
        spans = (f"{max(one.values()) - min(one.values()):.4f}" if one else HIDDEN for one in told)
        yield "the largest shown minus the smallest", *spans
        return
    worst = [(min if larger_is_better else max)(one, key=one.__getitem__) if one else None for one in told]
    yield "the worst shown", *(name or HIDDEN for name in worst)
    gaps = (
        UNKNOWN if name is None or mean is None else f"{one[name] - mean:+.4f}"
        for name, one, mean in zip(worst, told, means, strict=True)
    )
    yield "the worst minus all", *gaps
