"""A table of the user's own in one Parquet file, with a public schema file that says what its columns are."""

from fl_dp.data.table_source import table_source
from fl_dp.data.tables.files import read_parquet

SOURCE = table_source(lambda location, schema: read_parquet(location.path), is_path=True)
