"""The tables of runs as one CSV file that a spreadsheet opens without computing anything."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.table import Table
from fl_dp.reporting.page.tables import tables_of
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.spreadsheet import disarmed


def write_csv(folders: Sequence[RunFolder], out: Path) -> None:
    """Write every row of every table, one table below the other; ConfigError where that cannot be."""
    text = csv_text(folders)
    try:
        write_whole(out, lambda file: file.write(text.encode("utf-8-sig")))
    except OSError as error:
        raise ConfigError(f"--csv {out}: cannot be written: {error.strerror}.") from None


def csv_text(folders: Sequence[RunFolder]) -> str:
    """Lines begin with the run's folder and the table's name, so that they can be sorted apart again."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    for folder in folders:
        run = read_run(folder)
        marks = (run.name, "private" if run.private else NOT_PRIVATE)
        for table in tables_of(run):
            for row in _rows(table):
                writer.writerow([disarmed(cell) for cell in (*marks, table.key, *row)])
    return file.getvalue()


def _rows(table: Table) -> list[tuple[str, ...]]:
    return [table.columns, *table.rows]
