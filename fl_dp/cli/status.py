"""`fl-dp client status`: what this site's data have spent, and what servers last asked of them."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fl_dp.accounting.ledger.files import LEDGER, lasting_ledger
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.cli.common import JsonOption, say
from fl_dp.errors import LedgerError
from fl_dp.federation.client.journal import Line, in_words, journal_folder, read_journal
from fl_dp.records import REFUSAL_STATUSES
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.ledger_report import AccountReport, account_reports
from fl_dp.reporting.report_json import dumps
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.wording import counted, folded


def status(
    ledger: Annotated[
        Path | None, typer.Option(help="Folder of the ledger [default: ~/.local/state/fl-dp/ledger].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show each data set's budget, last round and last refusal.

    This is read from the ledger and the journal beside it, whether a client is running or not.
    """
    path = (ledger or lasting_ledger()).expanduser().absolute() / LEDGER
    if not path.exists():
        raise LedgerError(_no_ledger(path, ledger))
    with Ledger.open_existing(path) as opened:
        reports = [one for one in account_reports(opened.accounts()) if one.retired is None]
    lines = read_journal(journal_folder(str(path)))
    if as_json:
        rows = [_row(report, _of(report, lines)) for report in reports]
        say(dumps({"ledger": str(path), "data sets": rows}, indent=2))
        return
    say(f"ledger {path}")
    for report in reports:
        for text in _words(report, _of(report, lines)):
            say("\n".join(folded(text, shutil.get_terminal_size().columns)))
    if not reports:
        say("no data set is registered yet")


def _no_ledger(path: Path, given: Path | None) -> str:
    """The error if there is no ledger, with how to find the right one."""
    if given is not None:
        return (
            f"--ledger {given}: no ledger in it, {path.name} is missing; name the folder that the client "
            "was given. The client's first lines on the console name its ledger."
        )
    return (
        f"{path.parent}: holds no ledger, as no client of this user was started without --ledger. If one "
        "was started with it, name the same folder: fl-dp client status --ledger FOLDER."
    )


def _of(report: AccountReport, lines: Sequence[Line]) -> list[Line]:
    """Lines about the data set since its account began, and those written before the data were read."""
    since = report.registered[:19]
    return [one for one in lines if one.dataset in (report.dataset, "") and one.at[:19] >= since]


def _last(lines: Sequence[Line], *events: str) -> Line | None:
    return next((line for line in reversed(lines) if line.event in events), None)


def _row(report: AccountReport, lines: Sequence[Line]) -> dict[str, Any]:
    found = {"last round": _last(lines, "trained"), "last refusal": _last(lines, *REFUSAL_STATUSES)}
    return {
        "data set": report.dataset,
        "private": report.private,
        "epsilon": report.epsilon,
        "budget": report.budget,
        "delta": report.delta,
        "accountant": report.accountant,
        "steps": report.taken,
        "rounds": len(report.rounds),
        **{key: None if line is None else _shown(line) for key, line in found.items()},
    }


def _shown(line: Line) -> dict[str, Any]:
    return {"at": line.at, "client": line.client, "run": line.run, "round": line.round, "reason": line.reason}


def _words(report: AccountReport, lines: Sequence[Line]) -> list[str]:
    of = "" if report.budget is None else f" of {rounded_up(report.budget)}"
    spent = f"epsilon {rounded_up(report.epsilon)}{of} at delta {report.delta:g}, by {report.accountant}"
    if not report.private:
        spent = f"{NOT_PRIVATE}: no epsilon holds"
    taken = f"{counted(report.taken, 'step')} in {counted(len(report.rounds), 'round')}"
    found = [f"{report.dataset}: {spent}; {taken}"]
    paid = report.rounds[-1] if report.rounds else None
    last = _last(lines, "trained")
    if paid is not None and (last is None or (last.run, last.round) != (paid.run, paid.server_round)):
        state = "answered" if paid.committed else "paid for but not answered"
        found.append(
            f"  last round: {paid.time[:19]}  round {paid.server_round} of run {paid.run}: "
            f"{counted(paid.entry.steps, 'step')}, {state}"
        )
    elif last is not None:
        found.append(f"  last round: {last.at[:19]}  {in_words(last)}")
    refusal = _last(lines, *REFUSAL_STATUSES)
    if refusal is not None:
        found.append(f"  last refusal: {refusal.at[:19]}  {in_words(refusal)}")
    return found
