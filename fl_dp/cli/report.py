"""`fl-dp report`: the page of a run, for those who decide and sign."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import command, say
from fl_dp.errors import ConfigError
from fl_dp.reporting.page.approval import write_approval
from fl_dp.reporting.page.render import write_page
from fl_dp.reporting.run_folder import RunFolder


@command()
def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the page [default: DIR/report.html]."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    purpose: Annotated[
        str | None, typer.Option(help="Purpose of the run; kept in DIR/approval.toml.")
    ] = None,
    approver: Annotated[str | None, typer.Option(help="Who approves the run; kept in the same file.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Date of the approval, such as 2025-05-02; kept in the same file.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Who operates server and sites; kept in the same file.")
    ] = None,
    recipients: Annotated[str | None, typer.Option(help="Who gets the model; kept in the same file.")] = None,
    retention: Annotated[
        str | None, typer.Option(help="How long the model is kept; kept in the same file.")
    ] = None,
    legal_basis: Annotated[
        str | None, typer.Option(help="Legal basis of the processing; kept in the same file.")
    ] = None,
) -> None:
    """Write the report of a run.

    The report is one HTML page: what was promised, spent and reached. It is made from the files of the folder
    alone, loads nothing, runs no script, and can be printed.
    """
    folder = _folder(run)
    said = {
        "purpose": purpose,
        "approver": approver,
        "date": date,
        "operator": operator,
        "recipients": recipients,
        "retention": retention,
        "legal_basis": legal_basis,
    }
    if any(value is not None for value in said.values()):
        write_approval(folder, **said)
    page = write_page(folder, out)
    say(f"report in {page}")
    if show:
        _open(page)


def _folder(path: Path) -> RunFolder:
    if not path.is_dir():
        raise ConfigError(f"{path}: no such folder; name the folder of a run, such as runs/20250102-030405.")
    return RunFolder(path.absolute())


def _open(page: Path) -> None:
    if not webbrowser.open(page.absolute().as_uri()):
        say(f"no browser was found; open {page} yourself")
