"""Renders the page of a run as one HTML text.

The same files and versions give the same bytes: no clock, no path of this machine, no randomness.
"""

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.clean_text import clean
from fl_dp.config.data import CLIENT
from fl_dp.kits.keys import fingerprint
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page import numbers, signing
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.outcomes import WITHHELD
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.tables import tables
from fl_dp.reporting.promise import NO_PROMISE, PROMISE, PROMISE_OF_PERSONS
from fl_dp.reporting.provenance import drawn_by
from fl_dp.reporting.reports import BEYOND_USE
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import counted, some

if TYPE_CHECKING:
    from jinja2 import Environment

    from fl_dp.reporting.page.canvas import Figure

_LONGEST_NAME = 80  # characters of the run's name in a footer
_NAMED = 12  # clients, or names of data, in one line


def render_page(folder: RunFolder) -> str:
    """The page of the run in `folder`; ConfigError if it cannot be read, or a package is missing."""
    versions = drawn_by()
    run = read_run(folder)
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            digest=fingerprint(run.digest),
            figures=_figures(run),
            tables=tables(run),
            approval=signing.approval_lines(run),
            site_lines=signing.site_lines(run),
            names=some([one.name for one in run.clients], _NAMED),
            data=operators_word(run),
            stated=other_words(run),
            guess=_guess(run),
            counted_sizes=run.local and CLIENT not in run.of_setting.get("data", "") and len(run.clients) > 1,
            withheld=WITHHELD.get(run.outcomes.withheld, ""),
            promises={"record": PROMISE, "person": PROMISE_OF_PERSONS, "none": NO_PROMISE},
            least_cell=LEAST_CELL,
            beyond_use=BEYOND_USE,
            drawn_by=versions,
            infinity=math.inf,
            foot=f"Run {clean(run.called, _LONGEST_NAME)}",
        )
    )


def operators_word(run: RunFacts) -> str:
    """The server operator's name for the data: "csv", "ward 7 (csv)". Each site has settings of its own."""
    named, kind = run.of_setting.get("data-name", ""), _kind(run)
    return f"{named} ({kind})" if named else kind


def _kind(run: RunFacts) -> str:
    """From model.json, which says what the task has read; without it, from the setting."""
    said = run.described
    return (
        said.get("data") or said.get("task") or run.of_setting.get("data", "").partition(":")[0]
    ) or numbers.UNKNOWN


def other_words(run: RunFacts) -> str:
    """Names that sites state for their data and that differ from the operator's; empty if none do."""
    kind, name = _kind(run), run.of_setting.get("data-name", "")
    others = [
        f"{one.name} ({one.kind})" if one.kind else one.name
        for site in run.stating
        for one in site.data
        if not (one.kind or one.name).startswith((kind, f"{kind} in "))
        or (name and name.replace(CLIENT, one.client) != one.name)
    ]
    return some(list(dict.fromkeys(others)), _NAMED)


def _guess(run: RunFacts) -> str:
    """How often a guess at even odds can be right, by the epsilon that is shown; empty if none holds."""
    shown = numbers.epsilon(run.epsilon)
    if shown == numbers.INFINITE:
        return ""
    return numbers.percent(numbers.best_guess(float(shown), run.delta or 0.0))


def _figures(run: RunFacts) -> "list[Figure]":
    from fl_dp.reporting.page.canvas import drawing
    from fl_dp.reporting.page.figures import figures

    with drawing():
        return figures(run)


def _in_css(text: str) -> str:
    """Escape text for quotes in a style sheet: everything but letters and digits by code point."""
    return "".join(one if one.isascii() and one.isalnum() else f"\\{ord(one):06x}" for one in text)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {
        "in_css": _in_css,
        "epsilon": numbers.epsilon,
        "known_epsilon": numbers.known_epsilon,
        "alone": numbers.alone,
        "plain": numbers.plain,
        "number": numbers.number,
        "measured": numbers.measured,
        "seconds": numbers.seconds,
        "moment": numbers.moment,
        "counted": counted,
    }
    made.filters.update(filters)
    return made
