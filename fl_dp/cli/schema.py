"""`fl-dp schema`: a draft of the schema file that table sources read, such as `csv:PATH`."""

from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import command, say, write_new
from fl_dp.config.data import ENCODINGS
from fl_dp.errors import ConfigError
from fl_dp.reporting.wording import counted


@command()
def schema(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table to draft a schema for.")],
    label: Annotated[str, typer.Option(help="Column to predict.")] = "",
    group: Annotated[str, typer.Option(help="Column that says whose record it is.")] = "",
    separator: Annotated[str, typer.Option(help="Separator between the cells of a CSV file.")] = ",",
    encoding: Annotated[
        str, typer.Option(help=f"Encoding of a CSV file: {', '.join(ENCODINGS)}.")
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
    """Draft the schema of a table: CSV, Parquet and others.

    The ending of FILE decides; any other ending is read as CSV. Ranges and categories stay blank: fill them
    in from what is known without the records. A schema with blanks is refused.
    """
    if len(separator) != 1:
        raise ConfigError(f"--separator {separator!r}: expected one character.")
    if encoding not in ENCODINGS:
        raise ConfigError(f"--encoding {encoding!r}: expected {' or '.join(ENCODINGS)}.")
    from fl_dp.data.sources.tables import schema_beside, table_without_schema  # late: PyTorch, for a second
    from fl_dp.data.tables.draft import Wishes, draft_schema

    table = table_without_schema(file, separator=separator, header=not no_header, encoding=encoding)
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
