"""Metrics of each class and subgroup beside those of all records, and the gap to the worst."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import UNKNOWN
from fl_dp.reporting.page.pieces import Table

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


def part_tables(run: RunFacts) -> tuple[Table, ...]:
    """A table for each metric reported by parts: a row for all records, for each part and for the worst."""
    return tuple(_table(run, metric, said) for metric, said in BY_PART.items() if metric in run.by_part)


def _table(run: RunFacts, metric: str, said: ByPart) -> Table:
    values = dict(run.by_part[metric])
    mean = run.metrics.get(said.base) if said.base else values.pop(ALL, None)
    unknown = UNKNOWN if said.base else HIDDEN
    rows = (
        ("all", unknown if mean is None else f"{mean:.4f}"),
        *((name, HIDDEN if value is None else f"{value:.4f}") for name, value in values.items()),
        *_ends(values, mean, said.larger_is_better),
    )
    caption = f"{said.caption}, on the server's test data"
    return Table(said.key, caption, (said.part, "value"), rows, frozenset({said.part}))


def _ends(
    values: Mapping[str, float | None], mean: float | None, larger_is_better: bool | None
) -> Iterator[tuple[str, str]]:
    """Rows of the worst part, or of how far parts are from each other; of those that are shown."""
    told = {name: value for name, value in values.items() if value is not None}
    if larger_is_better is None:
        span = f"{max(told.values()) - min(told.values()):.4f}" if told else HIDDEN
        yield "the largest shown minus the smallest", span
        return
    worst = (min if larger_is_better else max)(told, key=told.__getitem__) if told else None
    yield "the worst shown", worst or HIDDEN
    gap = UNKNOWN if worst is None or mean is None else f"{told[worst] - mean:+.4f}"
    yield "the worst minus all", gap
