"""`fl-dp report`: the page of a run, for those who decide, compare and sign."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fl_dp.cli.common import say
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    from fl_dp.reporting.run_folder import RunFolder

HELP = """Write a report of one run, or of several side by side.

The report is one HTML page: what was promised, spent and reached. It is made from the files of the folder
alone, loads nothing, runs no script, and can be printed.
"""


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File for the page [default: DIR/report.html; for several runs report.html here].",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write all rows of the tables to this folder, a CSV file for each table."
        ),
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="Purpose of the run; kept in DIR/approval.toml.", show_default=False)
    ] = None,
    approver: Annotated[
        str | None, typer.Option(help="Who approves the run; kept in the same file.", show_default=False)
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(
            help="Date of the approval, such as 2025-05-02; kept in the same file.", show_default=False
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(help="Who operates server and sites; kept in the same file.", show_default=False),
    ] = None,
    recipients: Annotated[
        str | None, typer.Option(help="Who gets the model; kept in the same file.", show_default=False)
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(help="How long the model is kept; kept in the same file.", show_default=False),
    ] = None,
    legal_basis: Annotated[
        str | None,
        typer.Option(help="Legal basis of the processing; kept in the same file.", show_default=False),
    ] = None,
) -> None:
    from fl_dp.reporting.page.csv_files import write_csv_files
    from fl_dp.reporting.page.write import write_page

    folders = [_folder(run) for run in runs]
    said = {
        "purpose": purpose, "approver": approver, "date": date, "operator": operator,
        "recipients": recipients, "retention": retention, "legal_basis": legal_basis,
    }  # fmt: skip
    if any(value is not None for value in said.values()):
        _approve(folders, said)
    page = write_page(folders, out)
    say(f"report in {page}")
    if csv is not None:
        write_csv_files(folders, csv)
        say(f"tables in {csv}")
    if show:
        _open(page)


def _folder(path: Path) -> "RunFolder":
    from fl_dp.reporting.run_folder import RunFolder

    if not path.is_dir():
        raise ConfigError(f"{path}: no such folder; name the folder of a run, such as runs/20250102-030405.")
    return RunFolder(path.absolute())


def _approve(folders: "list[RunFolder]", said: Mapping[str, str | None]) -> None:
    from fl_dp.reporting.page.approval import write_approval

    if len(folders) > 1:
        given = ", ".join(f"--{name.replace('_', '-')}" for name, value in said.items() if value is not None)
        raise ConfigError(f"{given}: an approval is for one run; name only its folder.")
    write_approval(folders[0], **said)


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        say(f"no browser was found; open {page} yourself")
