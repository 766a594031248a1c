"""`fl-dp ledger`: show, verify, export and retire what the data on this machine have spent."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.accounting.ledger.export import check_continues, read_export, to_export
from fl_dp.accounting.ledger.files import LEDGER, lasting_ledger
from fl_dp.accounting.ledger.hash_chain import Row, head
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.cli.common import APP_OPTIONS, JsonOption, PlainCommand
from fl_dp.durable_files import open_private
from fl_dp.errors import ConfigError, LedgerError
from fl_dp.federation.client.journal import check_newest_ledger
from fl_dp.launch.ledger_place import named_ledger
from fl_dp.records import assuming
from fl_dp.reporting.console import rounded_up, times
from fl_dp.reporting.ledger_report import (
    AccountReport,
    account_reports,
    print_accounts,
    print_rounds,
    print_spent,
)
from fl_dp.reporting.report_json import dumps
from fl_dp.reporting.wording import counted

ledger_app = typer.Typer(**APP_OPTIONS)

_WHERE = "A ledger's file or folder, or a run's folder"
_DEFAULT = "[default: ~/.local/state/fl-dp/ledger]"
LedgerPath = Annotated[Path, typer.Argument(metavar="PATH", help=f"{_WHERE}.")]
UsualPath = Annotated[Path | None, typer.Argument(metavar="[PATH]", help=f"{_WHERE} {_DEFAULT}.")]


@ledger_app.callback(invoke_without_command=True)
def about(context: typer.Context) -> None:
    """Show, verify, export or retire what the data have spent."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@ledger_app.command(cls=PlainCommand)
def show(
    path: UsualPath = None,
    rounds: Annotated[bool, typer.Option("--rounds", help="Also list every round.")] = False,
    delta: Annotated[
        float | None, typer.Option(help="Compute epsilon at this delta [default: the budget's].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print every data set of a ledger and the epsilon that it has spent.

    Without PATH this is the ledger of this machine's clients. "by" names the accountant that computed the
    epsilon. "total" also counts retired accounts of the same data: retiring does not undo what was spent.
    """
    if delta is not None and not 0.0 < delta < 1.0:
        raise ConfigError(f"--delta {delta:g}: expected a number between 0 and 1.")
    file = _named(path)
    reports = _reports(file, delta)
    if as_json:
        typer.echo(dumps({"ledger": str(file), "accounts": [one.to_dict() for one in reports]}, indent=2))
        return
    if not reports:
        typer.echo(f"{file}: no data set is registered yet")
    print_accounts(reports)
    print_spent(reports)
    if rounds:
        print_rounds(reports)


@ledger_app.command(cls=PlainCommand)
def verify(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help=f"{_WHERE}, or an export's file {_DEFAULT}."),
    ] = None,
    continues: Annotated[
        Path | None,
        typer.Option(metavar="EXPORT", help="Also check that PATH continues this export."),
    ] = None,
) -> None:
    """Check that no entry of a ledger or export was changed.

    A ledger is also compared with the journal beside it. If both are older copies, or the file was rewritten
    as a whole, only --continues can show it.

    Exit code: 0 no entry was edited or removed; 1 one was, and the error names it.
    """
    file = _named(path)
    rows = _rows(file)
    if continues is not None:
        check_continues(file, rows, read_export(continues))
    entries = counted(len(rows), "entry", "entries")
    typer.echo(f"{file}: {entries}, none edited or removed; head {head(rows) or 'none'}")


@ledger_app.command(cls=PlainCommand)
def export(
    path: UsualPath = None,
    out: Annotated[Path | None, typer.Option(help="File to write [default: the console].")] = None,
) -> None:
    """Export all entries of a ledger as JSON, to keep elsewhere.

    The hashes that chain the entries are included."""
    with Ledger.open_existing(_named(path)) as ledger:
        text = json.dumps(to_export(ledger.rows()), indent=2)
    if out is None:
        typer.echo(text)
        return
    try:
        with open_private(out, follow=True) as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from None


@ledger_app.command(cls=PlainCommand)
def retire(
    path: LedgerPath,
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help="Name of the data set, as fl-dp ledger show prints it; in quotes if it has spaces.",
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """End a data set's account; the next use starts from zero.

    This undoes no privacy loss, and the old entries stay. Servers learn that an account was retired.
    """
    path = named_ledger(path)
    report = _in_use(path, dataset)
    count = report.retirements
    before = f"it was retired {times(count)} before" if count else "it was never retired before"
    typer.echo(
        f"{dataset} has spent epsilon {rounded_up(report.epsilon)} at delta {report.delta:g}, by "
        f"{report.accountant}, {assuming(report.arithmetic)}; with the accounts before "
        f"it {rounded_up(report.total.epsilon)}; {before}.\nRetiring does not undo this. Later spending "
        f"adds to it, although reports of later runs count only from here. The old entries "
        "stay."
    )
    if not (yes or _typed(dataset)):
        raise ConfigError(f"{dataset} was not retired; to retire it, type its name or give --yes.")
    with Ledger.open_existing(path) as ledger:
        ledger.retire(dataset)
    typer.echo(f"{dataset} is retired; this is retirement {report.retirements + 1} of these data.")


def _named(path: Path | None) -> Path:
    """The ledger's file, by default that of this machine's clients."""
    return named_ledger(path or lasting_ledger() / LEDGER)


def _reports(path: Path, delta: float | None = None) -> list[AccountReport]:
    with Ledger.open_existing(path) as ledger:
        accounts = ledger.accounts()
    return account_reports(accounts, delta)


def _in_use(path: Path, dataset: str) -> AccountReport:
    reports = [report for report in _reports(path) if report.retired is None]
    for report in reports:
        if report.dataset == dataset:
            return report
    names = "; ".join(report.dataset for report in reports) or "none"
    raise LedgerError(f"{path}: no data set in use is called {dataset}; in use: {names}.")


def _typed(dataset: str) -> bool:
    try:
        return input("Type the data set's name to retire it: ") == dataset
    except EOFError:  # standard input is closed
        typer.echo()  # to end the prompt's line
        return False


def _rows(path: Path) -> list[Row]:
    """The verified entries of a ledger, or of an export, whose file begins with a brace."""
    try:
        with path.open("rb") as file:
            is_export = file.read(1) == b"{"
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}.") from None
    if is_export:
        return read_export(path)
    check_newest_ledger(path)
    with Ledger.open_existing(path) as ledger:
        return ledger.rows()
