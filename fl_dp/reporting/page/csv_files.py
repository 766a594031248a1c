"""The tables of runs as CSV files: one file for each table, numbers in full precision."""

import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.page import about_data, tables
from fl_dp.reporting.page.compare import digests, groups_of, launches, side_by_side
from fl_dp.reporting.page.curves import outcome_tables
from fl_dp.reporting.page.facts import RunFacts
from fl_dp.reporting.page.numbers import Shown, measured
from fl_dp.reporting.page.pieces import Table
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.spreadsheet import disarmed

_OF_A_RUN = (
    tables.clients,
    tables.mechanisms,
    tables.rounds,
    tables.reasons,
    tables.data_sets,
    about_data.columns,
    tables.settings,
)
Row = Mapping[str, object]


def write_csv_files(folders: Sequence[RunFolder], out: Path) -> None:
    """Write KEY.csv of every table into the folder `out`, which is made if needed; ConfigError if it fails.

    A table without rows becomes a file with only a header, so that no file of an earlier export survives.
    """
    if out.suffix == ".csv" or (out.exists() and not out.is_dir()):
        raise ConfigError(f"--csv {out}: name a folder; each table becomes a file in it.")
    texts = csv_texts([read_run(folder) for folder in folders])
    try:
        out.mkdir(exist_ok=True)
        for key, text in texts.items():
            content = text.encode("utf-8-sig")
            write_whole(out / f"{key}.csv", partial(_write, content))
    except OSError as error:
        raise ConfigError(f"--csv {out}: cannot be written: {error.strerror}.") from None


def csv_texts(runs: Sequence[RunFacts]) -> dict[str, str]:
    """A CSV text for each table, by key. A table holds the rows of all runs, each with its run's marks."""
    of_all = (side_by_side(runs, groups_of(runs)), launches(runs), digests(runs))
    found = {table.key: [_row(table, row) for row in table.rows] for table in of_all}
    heads = {table.key: list(table.columns) for table in of_all}
    for place, run in enumerate(runs, 1):
        for table in (*(make(run) for make in _OF_A_RUN), *outcome_tables(run), _parts(run)):
            marks = {
                "run": f"run {place}",
                "folder": run.name,
                "private": "private" if run.private else NOT_PRIVATE,
            }
            found.setdefault(table.key, []).extend({**marks, **_row(table, row)} for row in table.rows)
            known = heads.setdefault(table.key, list(marks))
            known += [head for head in table.columns if head not in known]
    return {key: _text(heads[key], rows) for key, rows in found.items()}


def _row(table: Table, row: Sequence[str]) -> Row:
    bare = (cell.value if isinstance(cell, Shown) else cell for cell in row)
    return dict(zip(table.columns, bare, strict=True))


def _parts(run: RunFacts) -> Table:
    """Metrics of classes and subgroups, one per line; the page has a table for each metric."""
    rows = tuple(
        (metric, part, measured(value)) for metric, values in run.by_part.items() for part, value in values
    )
    return Table("parts", "", ("metric", "class or subgroup", "value"), rows)


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _text(heads: Sequence[str], rows: Sequence[Row]) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([disarmed(head) for head in heads])
    writer.writerows([disarmed(row.get(head)) for head in heads] for row in rows)
    return file.getvalue()
