"""The tables of `fl-dp ledger show`."""

from collections.abc import Sequence

from fl_dp.records import Entry
from fl_dp.reporting.console import rounded_up, times
from fl_dp.reporting.ledger_report import AccountReport
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.table import print_table

_ACCOUNT = (
    "data set", "unit", "state", "rounds", "uncommitted", "steps", "epsilon", "of", "delta", "by",
    "arithmetic", "total", "last round, UTC",
)  # fmt: skip
_SPENT = ("data set", "state", "sample rate", "noise multiplier", "steps")
_ROUND = (
    "entry", "time, UTC", "data set", "run", "round", "sample rate", "noise multiplier", "steps", "state",
)  # fmt: skip
_WORDS = ("data set", "unit", "state", "by", "arithmetic", "last round, UTC", "time, UTC", "run")


def print_accounts(reports: Sequence[AccountReport]) -> None:
    """One line for each account; epsilons are rounded up."""
    print_table("Data sets", _ACCOUNT, [_account(report) for report in reports], left=_WORDS)


def print_spent(reports: Sequence[AccountReport]) -> None:
    """What the epsilons come from: steps of equal mechanisms together."""
    rows = [
        (
            report.dataset,
            _state(report),
            f"{entry.sample_rate:.6g}",
            _noise(entry),
            str(entry.steps),
        )
        for report in reports
        for entry in report.spent
    ]
    print_table("Paid for", _SPENT, rows, left=_WORDS)


def print_rounds(reports: Sequence[AccountReport]) -> None:
    """Every round, by the number of the entry that reserved it."""
    rows = [
        (
            str(paid.id),
            _short(paid.time),
            report.dataset,
            paid.run,
            str(paid.server_round),
            f"{paid.entry.sample_rate:.6g}",
            _noise(paid.entry),
            str(paid.entry.steps),
            "committed" if paid.committed else "reserved",
        )
        for report in reports
        for paid in report.rounds
    ]
    print_table("Rounds", _ROUND, sorted(rows, key=lambda row: int(row[0])), left=_WORDS)


def _account(report: AccountReport) -> tuple[str, ...]:
    return (
        report.dataset,
        report.unit,
        _state(report),
        str(len(report.rounds)),
        str(report.uncommitted),
        str(report.steps),
        rounded_up(report.epsilon),
        "-" if report.budget is None else rounded_up(report.budget),
        f"{report.delta:g}",
        report.accountant,
        report.arithmetic if report.private else "-",
        rounded_up(report.total_epsilon),
        _short(report.rounds[-1].time) if report.rounds else "-",
    )


def _noise(entry: Entry) -> str:
    return f"{entry.noise_multiplier:g}" if entry.private else NOT_PRIVATE


def _short(time: str) -> str:
    """An ISO 8601 time in UTC as 2026-01-31 12:00:00."""
    return time[:19].replace("T", " ")


def _state(report: AccountReport) -> str:
    mark = "" if report.private else f", {NOT_PRIVATE}"
    if report.retired is not None:
        return f"retired {report.retired[:10]}{mark}"
    before = f", retired {times(report.retirements)} before" if report.retirements else ""
    return f"in use{before}{mark}"
