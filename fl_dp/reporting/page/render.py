"""The page of one run, or of several side by side, as one HTML text.

The same files and versions give the same bytes: no clock, no place of this machine, no chance.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.errors import ConfigError
from fl_dp.records import LEAST_CELL
from fl_dp.reporting.page import about_data, overview, signing, tables
from fl_dp.reporting.page.by_part import part_tables
from fl_dp.reporting.page.facts import Run
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.several import of_several
from fl_dp.reporting.page.versions import drawn_by
from fl_dp.reporting.page.words import clauses, ending, headline
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.vouched import SIGNED, UNSIGNED

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(folders: Sequence[RunFolder]) -> str:
    """The page of the runs in `folders`; ConfigError where one cannot be read, or a package is missing."""
    if not folders:
        raise ConfigError("a report needs the folder of a run, or several.")
    versions = drawn_by()
    runs = [read_run(folder) for folder in folders]
    name, values = ("one.html", _of_one(runs[0])) if len(runs) == 1 else ("several.html", _of_several(runs))
    return _environment().get_template(name).render(**values, drawn_by=versions)


def _of_one(run: Run) -> dict[str, Any]:
    return {
        "private": run.private,
        "run": run,
        "headline": headline(run),
        "clauses": clauses(run),
        "overview": overview.overview(run),
        "stated": overview.stated(run),
        "commitments": overview.commitments(run),
        "data_sets": tables.data_sets(run),
        "about_data": about_data.about_data(run),
        "columns": about_data.columns(run),
        "approval": signing.approval_lines(run),
        "site_lines": signing.site_lines(run),
        "part_tables": part_tables([run]),
        "digest": [run.digest[start : start + 8] for start in range(0, len(run.digest), 8)],
        "results": overview.results(run),
        "figures": _figures(run),
        "rounds": tables.rounds(run),
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
        "ending": ending(run),
    }


def _of_several(runs: Sequence[Run]) -> dict[str, Any]:
    from fl_dp.reporting.page.figures.canvas import drawing
    from fl_dp.reporting.page.figures.side_by_side import MOST, compared

    values = of_several(runs)
    groups = values["groups"]
    with drawing():
        figures = compared(groups)
    return {**values, "figures": figures, "most": MOST, "hidden_groups": max(0, len(groups) - MOST)}


def _figures(run: Run) -> list[Any]:
    from fl_dp.reporting.page.figures.attendance import attendance
    from fl_dp.reporting.page.figures.budget import budget
    from fl_dp.reporting.page.figures.canvas import drawing
    from fl_dp.reporting.page.figures.over_rounds import quality
    from fl_dp.reporting.page.figures.time_spent import time_spent
    from fl_dp.reporting.page.figures.tradeoff import tradeoff

    with drawing():
        found = [*quality(run), budget(run), tradeoff(run), attendance(run), time_spent(run)]
    return [one for one in found if one is not None]


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
