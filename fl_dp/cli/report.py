"""`fl-dp report`: the page of a run, for those who decide, compare and sign."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fl_dp.cli.common import say
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    from fl_dp.reporting.run_folder import RunFolder

HELP = """Write a run as one HTML page: what was promised, spent and reached. Several runs: side by side.

The page is made from the folder's files alone. It loads nothing and runs no script, and can be printed.
"""


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="[default: DIR/report.html; of several runs report.html here]"),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows of the tables there, too, as CSV.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="What the run was for; kept in DIR/approval.toml.", show_default=False)
    ] = None,
    approver: Annotated[
        str | None, typer.Option(help="Who approves it; kept there, too.", show_default=False)
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="When, in your own words; kept there, too.", show_default=False)
    ] = None,
) -> None:
    from fl_dp.reporting.page.csv_file import write_csv
    from fl_dp.reporting.page.write import write_page

    folders = [_folder(run) for run in runs]
    if (purpose, approver, date) != (None, None, None):
        _approve(folders, purpose, approver, date)
    page = write_page(folders, out)
    say(f"report in {page}")
    if csv is not None:
        write_csv(folders, csv)
        say(f"tables in {csv}")
    if show:
        _open(page)


def _folder(path: Path) -> "RunFolder":
    from fl_dp.reporting.run_folder import RunFolder

    if not path.is_dir():
        raise ConfigError(f"{path}: no such folder; name that of a run, such as runs/20250102-030405.")
    return RunFolder(path.absolute())


def _approve(folders: "list[RunFolder]", purpose: str | None, approver: str | None, date: str | None) -> None:
    from fl_dp.reporting.page.approval import write_approval

    if len(folders) > 1:
        raise ConfigError("--purpose, --approver and --date belong to one run; name its folder alone.")
    write_approval(folders[0], purpose=purpose, approver=approver, date=date)


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.absolute().as_uri()):
        say(f"no browser was found; open {page} in one")
