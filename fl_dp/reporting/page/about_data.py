"""What the page says of the data: kind, form, columns, classes and declared sizes. All of it is public."""

from collections.abc import Sequence

from fl_dp.config.data import PERSON
from fl_dp.reporting.page.facts import Named, Run
from fl_dp.reporting.page.numbers import UNKNOWN
from fl_dp.reporting.page.table import Table
from fl_dp.reporting.wording import counted

_CLASSES = 40  # named in one line


def kind_of_data(run: Run) -> str:
    """ "csv", "digits". In a simulation with the file's name: elsewhere it is the server's, and no site's."""
    asked = run.setting("data")
    if run.simulated and asked:
        return asked
    return dict(run.described).get("data") or asked.partition(":")[0] or "of the task's own"


def about_data(run: Run) -> Named:
    """Names and values."""
    found = [("Kind of data", kind_of_data(run)), ("Declared in all", sizes(run))]
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


def sizes(run: Run) -> str:
    """Of all clients together."""
    sizes = [one.public_size for one in run.clients]
    if not sizes or not all(sizes):
        return UNKNOWN
    return f"{counted(sum(sizes), run.unit)} at {counted(len(sizes), 'client')}"


def _named(classes: Sequence[str]) -> str:
    more = len(classes) - _CLASSES
    return ", ".join(classes[:_CLASSES]) + (f" and {more:,} more" if more > 0 else "")
