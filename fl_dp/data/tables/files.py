"""Tables in files: CSV and Parquet, read as texts, so that a record is the same in either."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fl_dp.data.tables.cells import Cells
from fl_dp.data.tables.encode import Table
from fl_dp.errors import DataError


def read_csv(path: Path, *, separator: str = ",", header: bool = True) -> Table:
    """The file at `path`, UTF-8; DataError, which quotes no cell, if it is damaged or ragged."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter=separator, skipinitialspace=True, strict=True)
            rows = [[cell.strip() for cell in line] for line in lines if line]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected a CSV file.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: expected a readable CSV file ({type(error).__name__}).") from None
    if len(rows) <= header:
        raise DataError(f"{path}: there are no records.")
    width = len(rows[0])
    if ragged := next((number for number, row in enumerate(rows, 1) if len(row) != width), None):
        raise DataError(
            f"{path}: line {ragged} (empty ones not counted) has not the first line's {width} cells."
        )
    names = tuple(rows.pop(0)) if header else tuple(map(str, range(width)))
    return Table(_columns(list(zip(*rows, strict=True))), names, named=header)


def read_parquet(path: Path) -> Table:
    """The file at `path`; DataError if it is damaged, or a cell is no text, number or date."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected a Parquet file.") from None
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: expected a readable Parquet file ({type(error).__name__}).") from None
    if table.num_rows == 0:
        raise DataError(f"{path}: there are no records.")
    texts = []
    for number, column in enumerate(table.columns, 1):
        try:
            texts.append(column.cast(pyarrow.string()).fill_null("").to_pylist())
        except pyarrow.ArrowException:
            raise DataError(
                f"{path}: column {number} holds {column.type}; expected texts, numbers or dates."
            ) from None
    return Table(_columns([[text.strip() for text in column] for column in texts]), tuple(table.column_names))


def _columns(texts: Sequence[Sequence[str]]) -> tuple[Cells, ...]:
    return tuple(np.array(column, dtype=object) for column in texts)
