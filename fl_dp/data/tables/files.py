"""Reads tables from CSV and Parquet files as texts, so that a record is the same in both."""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from fl_dp.data.tables.cells import Cells
from fl_dp.data.tables.encode import Table
from fl_dp.errors import DataError

_OTHERWISE = (
    'Another separator? Set separator = ";" in the schema, or --separator ";" for fl-dp schema. '
    "Or is it the schema of another table?"
)
_COMMENT = 'If the first line, which begins with "#", is a comment, delete it and all such lines.'
_UTF_16 = (
    'is UTF-16. Save it as UTF-8: in Excel as "CSV UTF-8", elsewhere with iconv -f UTF-16 -t UTF-8. If tabs '
    "separate its cells, set separator = \"\\t\" in the schema, --separator $'\\t' to fl-dp schema."
)
_EXCELS_NOTE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
_NOT_LATIN_1 = re.compile("[\x80-\x9f]")  # controls that no text has; in cp1252 letters and marks


def read_csv(path: Path, *, separator: str = ",", header: bool = True, encoding: str = "utf-8") -> Table:
    """The file at `path`; DataError, quoting no cell, if it is damaged, ragged or in another encoding."""
    try:
        text = _decoded(path, path.read_bytes(), encoding)
        lines = csv.reader(
            io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True
        )
        rows = [[cell.strip() for cell in line] for line in lines if line]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected a CSV file.") from None
    except OSError as error:
        raise DataError(f"{path}: expected a readable CSV file ({type(error).__name__}).") from None
    except csv.Error:
        raise DataError(
            f"{path}: expected a readable CSV file: quotes must enclose whole cells. {_way_on(text)}"
        ) from None
    if len(rows) <= header:
        raise DataError(f"{path}: there are no records.")
    width = len(rows[0])
    if ragged := next((number for number, row in enumerate(rows, 1) if len(row) != width), None):
        raise DataError(
            f"{path}: line {ragged} (empty ones not counted) does not have the first line's {width} cells. "
            f"{_way_on(text)}"
        )
    names = tuple(rows.pop(0)) if header else tuple(map(str, range(width)))
    return Table(_columns(list(zip(*rows, strict=True))), names, named=header)


def _decoded(path: Path, content: bytes, encoding: str) -> str:
    """The text of a file. It must have one reading only: records read in two ways would have two budgets."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
        raise DataError(f"{path}: {_UTF_16}")
    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError:
        raise DataError(
            f'{path}: not all of it is {encoding}; try encoding = "cp1252" (Windows), "latin-1" or "utf-8": '
            "in the schema or the settings, and --encoding to fl-dp schema."
        ) from None
    if encoding != "utf-8" and not content.isascii() and _is_utf8(content):
        raise DataError(f'{path}: is UTF-8, not {encoding}; set encoding = "utf-8".')
    if encoding == "latin-1" and _NOT_LATIN_1.search(text):
        raise DataError(f'{path}: holds bytes that are not letters in latin-1; set encoding = "cp1252".')
    if note := _EXCELS_NOTE.match(text):
        raise DataError(
            f'{path}: the first line is a note to Excel. Delete it, and set separator = "{note[1]}" in the '
            f'schema, --separator "{note[1]}" to fl-dp schema.'
        )
    return text


def _way_on(text: str) -> str:
    """What to do if lines differ in their number of cells."""
    return _COMMENT if text.startswith("#") else _OTHERWISE


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_parquet(path: Path) -> Table:
    """The file at `path`; DataError if it is damaged, or a cell is not a text, number or date."""
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected a Parquet file.") from None
    except (OSError, ValueError, pyarrow.ArrowException) as error:  # ValueError: names that are not UTF-8
        raise DataError(f"{path}: expected a readable Parquet file ({type(error).__name__}).") from None
    if table.num_rows == 0:
        raise DataError(f"{path}: there are no records.")
    texts = []
    for number, column in enumerate(table.columns, 1):
        try:
            texts.append(column.cast(pyarrow.string()).fill_null("").to_pylist())
        except (ValueError, pyarrow.ArrowException):
            raise DataError(
                f"{path}: column {number} holds {column.type}; expected texts, numbers or dates."
            ) from None
    return Table(_columns([[text.strip() for text in column] for column in texts]), tuple(table.column_names))


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a Parquet file that reads as a CSV file of the frame would; DataError, which quotes no cell."""
    flags = frame.select_dtypes("bool").columns
    try:
        frame.astype(dict.fromkeys(flags, str)).to_parquet(path, index=False)
    except (ValueError, TypeError, pyarrow.ArrowException) as error:
        raise DataError(
            "the data frame: expected columns of texts, of numbers or of dates, each with a name of its own "
            f"({type(error).__name__})."
        ) from None


def _columns(texts: Sequence[Sequence[str]]) -> tuple[Cells, ...]:
    return tuple(np.array(column, dtype=object) for column in texts)
