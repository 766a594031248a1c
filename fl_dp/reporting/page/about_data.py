"""What the page says of the data: kind, form, columns, classes and declared sizes. All of it is public."""

from collections.abc import Sequence

from fl_dp.config.data import PERSON
from fl_dp.reporting.page.facts import Named, Run
from fl_dp.reporting.page.numbers import UNKNOWN
from fl_dp.reporting.page.table import Table
from fl_dp.reporting.wording import counted

_CLASSES = 40  # named in one line
_RUNS = 12  # columns of a table
HIDDEN = "hidden"


def kind_of_data(run: Run) -> str:
    """ "csv", "digits". In a simulation with the file's name: elsewhere it is the server's, and no site's."""
    asked = run.setting("data")
    if run.simulated and asked:
        return asked
    return dict(run.described).get("data") or asked.partition(":")[0] or "of the task's own"


def about_data(run: Run) -> Named:
    """Names and values."""
    found = [("Kind of data", kind_of_data(run)), ("Declared in all", _sizes(run))]
    if run.unit == PERSON:
        most = run.records_per_person
        found.append(("Records of one person that count in a step", f"{most} at most" if most else UNKNOWN))
    if run.data.record:
        found.append(("One record", run.data.record))
    if run.data.predicted:
        found.append(("Predicted", run.data.predicted))
    if run.data.classes:
        found.append(("Names of what is predicted", _named(run.data.classes)))
    if run.data.schema:
        found.append(("SHA-256 of the schema's text", run.data.schema))
    return tuple(found)


def columns(run: Run) -> Table:
    """Of a table's schema."""
    heads = ("column", "kind", "what it may hold")
    caption = "Columns, as the schema declares them in public"
    return Table("columns", caption, heads, run.data.columns, frozenset(heads))


def class_table(runs: Sequence[Run]) -> Table:
    """A row for each class, a column for each run that tells of classes; small classes stay hidden."""
    told = [(place, run.class_accuracies) for place, run in enumerate(runs, 1) if run.class_accuracies]
    labels = dict.fromkeys(label for _, found in told[:_RUNS] for label, _ in found)
    values = [dict(found) for _, found in told[:_RUNS]]
    heads = (
        ("accuracy",) if len(runs) == 1 else tuple(_head(place, runs[place - 1]) for place, _ in told[:_RUNS])
    )
    rows = tuple((label, *(_accuracy(one, label) for one in values)) for label in labels)
    caption = "Accuracy of each class, on the server's test data"
    if len(told) > _RUNS:
        caption += f", of the first {_RUNS} runs that tell it"
    return Table("classes", caption, ("class", *heads), rows)


def _head(place: int, run: Run) -> str:
    return f"run {place}" if run.private else f"run {place}, NOT PRIVATE"


def _accuracy(found: dict[str, float | None], label: str) -> str:
    if label not in found:
        return UNKNOWN
    value = found[label]
    return HIDDEN if value is None else f"{value:.4f}"


def _sizes(run: Run) -> str:
    sizes = [one.public_size for one in run.clients]
    if not sizes or not all(sizes):
        return UNKNOWN
    return f"{counted(sum(sizes), run.unit)} at {counted(len(sizes), 'client')}"


def _named(classes: Sequence[str]) -> str:
    more = len(classes) - _CLASSES
    return ", ".join(classes[:_CLASSES]) + (f" and {more:,} more" if more > 0 else "")
