"""A table of the user's own in one CSV file, with a public schema file that says what its columns are."""

from fl_dp.data.source import Location
from fl_dp.data.table_source import table_source
from fl_dp.data.tables.encode import Table
from fl_dp.data.tables.files import read_csv
from fl_dp.data.tables.schema import Schema


def _read(location: Location, schema: Schema) -> Table:
    return read_csv(
        location.path,
        separator=schema.separator,
        header=schema.header,
        encoding=schema.encoding or location.reading.encoding,
    )


SOURCE = table_source(_read, is_path=True)
