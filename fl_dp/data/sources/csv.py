"""A table of the user's own in one CSV file, with a public schema file that says what its columns are."""

from pathlib import Path

from fl_dp.data.tables.encode import Table
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tables.schema import Schema
from fl_dp.data.tables.source import table_source


def _read(path: Path, schema: Schema) -> Table:
    return read_csv(path, separator=schema.separator, header=schema.header)


SOURCE = table_source(_read)
