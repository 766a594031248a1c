"""`fl-dp schema`: a draft of the schema file that table sources read, such as `csv:PATH`."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.choices import SOURCES
from fl_dp.cli.common import say, write_new
from fl_dp.config.data import ENCODINGS
from fl_dp.errors import ConfigError
from fl_dp.reporting.wording import counted

_CSV = "csv"  # the source that takes these options
HELP = """Draft the schema of a table: CSV, Parquet and others.

The ending of FILE says which; any other ending is read as CSV. Ranges and categories stay blank: fill them
in from what is known without the records. A schema with blanks is refused.
"""


def schema(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table to draft a schema for.", show_default=False)
    ],
    label: Annotated[str, typer.Option(help="Column to predict.", show_default=False)] = "",
    group: Annotated[str, typer.Option(help="Column that says whose record it is.", show_default=False)] = "",
    separator: Annotated[
        str,
        typer.Option(
            help="Separator between the cells of a CSV file [default: a comma].", show_default=False
        ),
    ] = ",",
    encoding: Annotated[
        str,
        typer.Option(
            help=f"Encoding of a CSV file: {', '.join(ENCODINGS)} [default: utf-8].", show_default=False
        ),
    ] = ENCODINGS[0],
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header", help="The first line is a record, not names; columns are then called 0, 1, ..."
        ),
    ] = False,
    public: Annotated[
        bool,
        typer.Option("--public", help="Fill in everything from the records, which publishes these values."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="New file for the schema [default: FILE's name with .schema.toml].")
    ] = None,
) -> None:
    from fl_dp.data.source import Location, Source
    from fl_dp.data.sources.tables import schema_beside
    from fl_dp.data.tables.draft import Wishes, draft_schema
    from fl_dp.data.tables.files import read_csv
    from fl_dp.data.tables.schema import Schema

    if len(separator) != 1:
        raise ConfigError(f"--separator {separator!r}: expected one character.")
    if encoding not in ENCODINGS:
        raise ConfigError(f"--encoding {encoding!r}: expected {' or '.join(ENCODINGS)}.")
    kind = file.suffix[1:]
    others = set(SOURCES.built_in()) - {_CSV}
    if kind in others and (read := SOURCES.load(kind, Source).table):
        table = read(Location(Path(), str(file)), Schema(()))
    else:
        table = read_csv(file, separator=separator, header=not no_header, encoding=encoding)
        if len(table.names) == 1:
            raise ConfigError(
                f"{file}: each line has only one cell with --separator {separator!r}; name the "
                "separator that the file uses."
            )
    for option, name in (("--label", label), ("--group", group)):
        if name and name not in table.names:
            raise ConfigError(
                f"{option} {name}: {file} has no column of that name; its first line has "
                f"{len(table.names)} names."
            )
    path = out or schema_beside(file)
    text = draft_schema(table, Wishes(label, group, public), file.name, separator, encoding)
    write_new(path, text)
    say(f"{path}: a draft of {counted(len(table.names), 'column')}; " + _next(public))


def _next(public: bool) -> str:
    if public:
        return "its ranges and categories come from the records: whoever gets the file knows them."
    return "fill in ranges, categories and classes, and check the kinds."
