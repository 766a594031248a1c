"""The user's own table in one file. A public schema file says what its columns are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from fl_dp.choices import SOURCES
from fl_dp.data.files_read import Lines, raw_lines
from fl_dp.data.source import TEST, Location, Source
from fl_dp.data.tables.columns import SplitColumn
from fl_dp.data.tables.encode import Table, encode, encode_inputs
from fl_dp.data.tables.files import read_csv, read_parquet
from fl_dp.data.tables.parse import read_schema
from fl_dp.data.tables.schema import FILE, NONE, Schema
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import ConfigError, DataError, located

_CSV = "csv"
SUFFIX = ".schema.toml"
# With split = "file" in the schema, the server's file, if each client has its own, holds the test records.
SERVER = "server"


def schema_file(location: Location) -> Path:
    """Path of the table's schema: the named one, or FILE.schema.toml beside FILE.csv."""
    return location.schema or schema_beside(location.path)


def _schema(location: Location) -> Schema:
    return read_schema(schema_file(location))


def schema_beside(path: Path) -> Path:
    """Default path of the schema of the table at `path`."""
    return path.with_suffix(SUFFIX)


def table_without_schema(file: Path, *, separator: str, header: bool, encoding: str) -> Table:
    """The table in a file, read by its ending; any unknown ending is read as CSV.

    separator, header, encoding: of CSV. ConfigError if no line of it has two cells.
    """
    kind = file.suffix[1:]
    others = set(SOURCES.built_in()) - {_CSV}
    if kind in others and (read := SOURCES.load(kind, Source).table):
        return read(Location(Path(), str(file)), Schema(()))
    table = read_csv(file, separator=separator, header=header, encoding=encoding)
    if len(table.names) == 1:
        raise ConfigError(
            f"{file}: each line has only one cell with --separator {separator!r}; name the separator that "
            "the file uses."
        )
    return table


def _source(read: Callable[[Location, Schema], Table], lines: Lines) -> Source:
    """A source of tables. read: reads the table, as schema and settings say."""

    def load(location: Location, split: Split) -> TensorData:
        if not location.schema:
            _check_there(location)  # first: a misspelt table name should not be reported as a missing schema
        schema = _schema(location)
        if schema.split == FILE and split == "test" and location.path.stem != SERVER:
            location = replace(location, argument=str(location.path.with_stem(TEST)))
        _check_there(location)
        if split == "test" and schema.split == NONE and not schema.one(SplitColumn):
            raise DataError(
                f'{location.path}: its schema says split = "none", so there are no test data; '
                'set evaluate = "off".'
            )
        table = read(location, schema)
        with located(location.path):
            return encode(table, schema, split)

    def inputs(location: Location) -> Tensor:
        _check_there(location)
        schema = _schema(location)
        table = read(location, schema)
        with located(location.path):
            return encode_inputs(table, schema)

    return Source(
        load,
        argument="PATH",
        is_path=True,
        schema=_schema,
        schema_file=schema_file,
        inputs=inputs,
        table=read,
        lines=lines,
    )


def _check_there(location: Location) -> None:
    if not location.path.exists():
        raise DataError(f"{location.path}: no such file; expected a table.")


def _csv(location: Location, schema: Schema) -> Table:
    return read_csv(
        location.path,
        separator=schema.separator,
        header=schema.header,
        encoding=schema.encoding or location.reading.encoding,
    )


CHOICES = {
    "csv": _source(_csv, raw_lines),
    "parquet": _source(
        lambda location, schema: read_parquet(location.path),
        lambda path: ("\t".join(row).encode() for row in zip(*read_parquet(path).columns, strict=True)),
    ),
}
