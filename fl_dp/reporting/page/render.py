"""Renders the page of a run as one HTML text.

The same files and versions give the same bytes: no clock, no path of this machine, no randomness.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.clean_text import clean
from fl_dp.kits.keys import fingerprint
from fl_dp.kits.signed import Signature
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page import about_data, overview, signing, tables
from fl_dp.reporting.page.assumptions import sizes_counted
from fl_dp.reporting.page.by_part import part_tables
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.outcomes import withheld_words
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.site_metrics import site_metric_tables
from fl_dp.reporting.page.words import clauses, ending, headline
from fl_dp.reporting.provenance import drawn_by
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.vouched import SIGNED, UNSIGNED

if TYPE_CHECKING:
    from jinja2 import Environment

_LONGEST_NAME = 80  # characters of the run's name in a footer


def render_page(folder: RunFolder) -> str:
    """The page of the run in `folder`; ConfigError if it cannot be read, or a package is missing."""
    versions = drawn_by()
    return _environment().get_template("one.html").render(**_values(read_run(folder)), drawn_by=versions)


def _values(run: RunFacts) -> dict[str, Any]:
    approval, lines = signing.approval_lines(run), signing.site_lines(run)
    return {
        "private": run.private,
        "run": run,
        "headline": headline(run),
        "glance": overview.glance(run),
        "first_figure": _first_figure(run),
        "clauses": clauses(run),
        "overview": overview.overview(run),
        "stated": overview.stated(run),
        "commitments": overview.commitments(run),
        "data_sets": tables.data_sets(run),
        "about_data": about_data.about_data(run),
        "columns": about_data.columns(run),
        "sizes_counted": sizes_counted(run),
        "approval": tuple((name, signing.short(value)) for name, value in approval),
        "whole": tuple((name, value) for name, value in approval if signing.short(value) != value),
        "site_lines": lines[: signing.ONE_SHEET],
        "more_sites": lines[signing.ONE_SHEET :],
        "part_tables": part_tables(run),
        "digest": fingerprint(run.digest),
        "verdict": overview.verdict(run),
        "foot": f"Run {clean(run.called, _LONGEST_NAME)}",
        "foot_digest": f"SHA-256 {fingerprint(run.digest)}",
        "results": overview.results(run),
        "figures": _figures(run),
        "rounds": tables.rounds(run),
        "withheld": withheld_words(run.outcomes, LEAST_CELL),
        "site_metrics": site_metric_tables(run),
        "site_sum": run.site_metrics,
        "ranked": tables.ranked(run),
        "clients": tables.clients(run),
        "mechanisms": tables.mechanisms(run),
        "reasons": tables.reasons(run),
        "provenance": overview.provenance(run),
        "settings": tables.settings(run),
        "least_cell": LEAST_CELL,
        "signed": SIGNED,
        "unsigned": UNSIGNED,
        "any_signed": overview.any_signed(run),
        "signatures": any(site.signed is not Signature.NONE for site in run.sites),
        "ending": ending(run),
    }


def _first_figure(run: RunFacts) -> Any:
    from fl_dp.reporting.page.figures.canvas import drawing
    from fl_dp.reporting.page.figures.of_one import glance

    with drawing():
        return glance(run)


def _figures(run: RunFacts) -> list[Any]:
    from fl_dp.reporting.page.figures.canvas import drawing
    from fl_dp.reporting.page.figures.of_one import attendance, budget, quality, time_spent, tradeoff
    from fl_dp.reporting.page.figures.of_outcomes import outcome_figures

    with drawing():
        found = [*quality(run), budget(run), tradeoff(run), *outcome_figures(run), attendance(run)]
        found.append(time_spent(run))
    return [one for one in found if one is not None]


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
    made.filters["in_css"] = _in_css
    return made
