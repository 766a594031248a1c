"""What the page says of the data: kind, form, columns, classes and declared sizes. All of it is public."""

from collections import Counter
from collections.abc import Sequence

from fl_dp.config.data import CLIENT, PERSON
from fl_dp.kits.signed import Signature
from fl_dp.reporting.page.facts import DataSet, Named, RunFacts, Site
from fl_dp.reporting.page.numbers import UNKNOWN
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.wording import counted, some

_CLASSES = 40  # named in one line
_NAMES = 6  # data names in one line


def operators_word(run: RunFacts) -> str:
    """The server operator's name for the data: "csv", "ward 7 (csv)". Each site has settings of its own."""
    named, kind = run.setting("data-name"), _operators_kind(run)
    return f"{named} ({kind})" if named else kind


def data_words(run: RunFacts) -> str:
    """What the holders call the data, and who says so; otherwise what the operator calls them."""
    found = [words for site in run.stating if site.signed is not Signature.WRONG for words in _stated(site)]
    silent = len({one.name for one in run.clients} - {client for client, _ in found})
    parts = [f"{words}: {counted(count, 'client')}" for words, count in _most(found)]
    if silent:
        of = f"of {counted(silent, 'client')} " if found else ""
        parts.append(f"{of}{operators_word(run)}, according to the server's operator alone")
    return "; ".join(parts) or f"{operators_word(run)}, according to the server's operator alone"


def other_words(run: RunFacts) -> str:
    """Names that sites state for their data and that differ from the operator's; empty if none do."""
    kind, name = _operators_kind(run), run.setting("data-name")
    others = Counter(
        named(one)
        for site in run.stating
        for one in site.data
        if not _is_of_kind(one, kind) or (name and name.replace(CLIENT, one.client) != one.name)
    )
    return ", ".join(words for words, _ in others.most_common(_NAMES))


def _operators_kind(run: RunFacts) -> str:
    """From model.json, which says what the task has read; without it, from the setting."""
    if data := run.described.get("data"):
        return data
    if task := run.described.get("task"):
        return f"records of {task}"
    kind = run.setting("data").partition(":")[0] or UNKNOWN
    return f"{UNKNOWN}; the setting says {kind}" if run.setting("task") else kind


def _is_of_kind(one: DataSet, kind: str) -> bool:
    """Whether the kinds agree; a task may also read the data that the settings name."""
    stated = one.kind or one.name
    return stated == kind or stated.startswith(f"{kind} in ")


def named(one: DataSet) -> str:
    """ "digits", "ward 7 (csv)": the name that a site has stated, with the kind that it hides."""
    return f"{one.name} ({one.kind})" if one.kind else one.name


def _stated(site: Site) -> list[tuple[str, str]]:
    """Each client of the site, with what is said of its data and by whom."""
    by = (
        "signed by the key beside its statement"
        if site.signed is Signature.HOLDS
        else "stated, but signed by nobody"
    )
    return [(one.client, f"{named(one)}, {by}") for one in site.data]


def _most(found: Sequence[tuple[str, str]]) -> list[tuple[str, int]]:
    counts = Counter(words for _, words in found).most_common()
    rest = sum(count for _, count in counts[_NAMES:])
    return [*counts[:_NAMES], *([("others", rest)] if rest else [])]


def about_data(run: RunFacts) -> Named:
    """Names and values."""
    found = [
        ("Data", data_words(run)),
        ("As the server's operator calls them", _operators(run)),
        ("Declared in all", sizes(run)),
    ]
    if run.unit == PERSON:
        most = run.records_per_person
        found.append(("Records of one person that count in a step", f"{most} at most" if most else UNKNOWN))
    if run.data.record:
        found.append(("One record", run.data.record))
    if run.data.predicted:
        found.append(("Predicted", run.data.predicted))
    if run.data.classes:
        found.append(("Names of what is predicted", some(run.data.classes, _CLASSES)))
    if run.data.schema:
        found.append(("SHA-256 of the schema's text", run.data.schema))
    return tuple(found)


def columns(run: RunFacts) -> Table:
    """The columns of a table's schema."""
    heads = ("column", "kind", "what it may hold")
    caption = "Columns, as the schema declares them in public"
    return Table("columns", caption, heads, run.data.columns, frozenset(heads))


def sizes(run: RunFacts) -> str:
    """The total over all clients."""
    sizes = [one.public_size for one in run.clients]
    if not sizes or not all(sizes):
        return UNKNOWN
    return f"{counted(sum(sizes), run.unit)} at {counted(len(sizes), 'client')}"


def _operators(run: RunFacts) -> str:
    others = other_words(run)
    return operators_word(run) + (f". NOT what sites have stated: {others}" if others else "")
