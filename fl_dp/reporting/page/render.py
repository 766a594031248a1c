"""Renders the page of a run as HTML and writes it.

The same files and versions give the same bytes: no clock, no path of this machine and no randomness is used.
"""

import datetime
import logging
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.clean_text import clean
from fl_dp.config.data import CLIENT
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import fingerprint
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.console import alone_words, constant_words
from fl_dp.reporting.page import numbers
from fl_dp.reporting.page.approval import day
from fl_dp.reporting.page.facts import Named, RunFacts
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

_LONGEST, _LONGEST_NAME = 4096, 80  # characters of a text, and of the run's name in a footer
_NAMED = 12  # clients, or names of data, in one line
_SITES, _OF_A_SITE = 20, 6  # sites with a line to sign, and clients named in each


def write_page(folder: RunFolder, out: Path | None = None) -> Path:
    """Write the page of the run to `out`, or else to report.html in its folder. Returns its path.

    ConfigError if the run cannot be read, a package is missing, or the file cannot be written.
    """
    file, text = out or folder.report, render_page(folder)
    try:
        write_whole(file, lambda opened: opened.write(text.encode()))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}; name another with --out.") from None
    return file


def written_at_the_end(folder: RunFolder) -> str:
    """Write the page of a finished run. Returns the line for the console.

    It never raises: the run is complete even without a page.
    """
    try:
        page = write_page(folder)
    except ConfigError as error:
        problem = str(error)
    except Exception as error:
        logging.getLogger("fl_dp").exception("the report could not be made")
        problem = f"it could not be made ({type(error).__name__})."
    else:
        return f"report in {folder.shown / page.name}"
    return f"no report was written: {problem} Then run: fl-dp report {folder.shown}"


def render_page(folder: RunFolder) -> str:
    """The page of the run in `folder`; ConfigError if it cannot be read, or a package is missing."""
    versions = drawn_by()
    run = read_run(folder)
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            said=run.said,
            digest=fingerprint(run.digest),
            figures=_figures(run),
            tables=tables(run),
            approval=approval_lines(run),
            site_lines=site_lines(run),
            names=some(list(run.clients), _NAMED),
            data=operators_word(run),
            stated=other_words(run),
            constant=constant_words(run.said),
            guess=_guess(run),
            counted_sizes=run.local and CLIENT not in run.of_setting.get("data", "") and len(run.clients) > 1,
            withheld=WITHHELD.get(run.outcomes.withheld, ""),
            promise=PROMISE_OF_PERSONS if run.unit == "person" else PROMISE,
            no_promise=NO_PROMISE,
            least_cell=LEAST_CELL,
            beyond_use=BEYOND_USE,
            drawn_by=versions,
            infinity=math.inf,
            foot=f"Run {clean(run.called, _LONGEST_NAME)}",
        )
    )


def operators_word(run: RunFacts) -> str:
    """The server operator's name for the data: "csv", "ward 7 (csv)". Sites may call theirs otherwise."""
    named, kind = run.of_setting.get("data-name", ""), _kind(run)
    return f"{named} ({kind})" if named else kind


def _kind(run: RunFacts) -> str:
    """The kind of data that the task has read, by model.json; without it, by the setting."""
    said, setting = run.described, run.of_setting.get("data", "").partition(":")[0]
    return said.get("data") or said.get("task") or setting or numbers.UNKNOWN


def other_words(run: RunFacts) -> str:
    """The names that sites state for their data, if they differ from the operator's; else empty."""
    kind, name = _kind(run), run.of_setting.get("data-name", "")
    others = [
        f"{one.data} ({one.kind})" if one.kind else one.data
        for site in run.stating
        for one in site.data
        if not (one.kind or one.data).startswith((kind, f"{kind} in "))
        or (name and name.replace(CLIENT, one.client) != one.data)
    ]
    return some(list(dict.fromkeys(others)), _NAMED)


def _guess(run: RunFacts) -> str:
    """How often a guess at even odds can be right, by the shown epsilon; empty if no epsilon holds."""
    shown = numbers.epsilon(run.epsilon)
    if shown == numbers.INFINITE:
        return ""
    return numbers.percent(numbers.best_guess(float(shown), run.said.delta or 0.0))


def approval_lines(run: RunFacts) -> Named:
    """The fields of a record of processing; empty ones become lines to fill in by hand.

    The result of `fl-dp verify` is always empty: the page is drawn first.
    """
    said = run.approval
    return (
        ("Purpose", said.purpose),
        ("Operated by (server and sites)", said.operator),
        ("Legal basis", said.legal_basis),
        ("Who gets the model", said.recipients),
        ("Kept until, or for how long", said.retention),
        ("Approved by", said.approver),
        ("Date (year-month-day)", _date(said.date, run.said.ended)),
        ("What fl-dp verify said about these files", ""),
        ("Signature", ""),
    )


def _date(text: str, ended: str) -> str:
    """The date in the file, with what is wrong with it: anybody may have written the file.

    ended: of the run, in UTC. No approval can predate the result on the clocks of any place on earth.
    """
    approved, last = day(text), _earliest_day(ended)
    if text and not approved:
        return f"NOT A DAY OF THE CALENDAR: {text}"
    if approved and last and approved < last:
        return f"{text}, before the run ended on {ended[:10]}: it approves no result"
    return text


def _earliest_day(moment: str) -> datetime.date | None:
    """The day in UTC-12, where each day ends last, at that moment; None if the text is no time."""
    try:
        return (datetime.datetime.fromisoformat(moment) - datetime.timedelta(hours=12)).date()
    except (ValueError, OverflowError):
        return None


def site_lines(run: RunFacts) -> tuple[str, ...]:
    """A line for each site that has to sign; empty if one launch simulated or started all clients."""
    if run.local:
        return ()
    stated = [tuple(one.client for one in site.data) for site in run.stating if site.data]
    known = {name for names in stated for name in names}
    found = [*stated, *((name,) for name in run.clients if name not in known)]
    lines = [f"For the site of {some(names, _OF_A_SITE)}" for names in found[:_SITES]]
    if len(found) > _SITES:
        lines.append(f"For {counted(len(found) - _SITES, 'more site')}, on a separate sheet")
    return tuple(lines)


def _figures(run: RunFacts) -> "list[Figure]":
    from fl_dp.reporting.page.figures import figures  # late: matplotlib, which is optional

    return figures(run)


def _in_css(text: str) -> str:
    """Escape text for a quoted string in a style sheet: all but letters and digits, by code point."""
    return "".join(one if one.isascii() and one.isalnum() else f"\\{ord(one):06x}" for one in text)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # late: these are optional
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=lambda one: (
            clean(one, _LONGEST) if isinstance(one, str) and not isinstance(one, Markup) else one
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {
        "in_css": _in_css,
        "short": clean,
        "alone": alone_words,
        "counted": counted,
        **{
            one.__name__: one
            for one in (
                numbers.epsilon,
                numbers.known_epsilon,
                numbers.number,
                numbers.measured,
                numbers.seconds,
                numbers.moment,
            )
        },
    }
    made.filters.update(filters)
    return made
