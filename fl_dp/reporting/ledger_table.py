"""The tables of `fl-dp ledger show`."""

import shutil
from collections.abc import Sequence

from fl_dp.records import Entry
from fl_dp.reporting.console import alone_words, rounded_up, times
from fl_dp.reporting.ledger_report import AccountReport
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import folded

_ACCOUNT = (
    "data set", "unit", "state", "rounds", "uncommitted", "steps", "epsilon", "of", "delta", "by",
    "arithmetic", "total", "last round, UTC",
)  # fmt: skip
_ALONE = ("alone", "of (alone)", "total (alone)")
_WHICH = (
    "epsilon and total hold against everybody who sees no more than sums of clients; alone and total "
    "(alone) hold if that fails, when only each client's own share of the noise protects it. none: no "
    "useful epsilon holds."
)
_ROUND = (
    "entry", "time, UTC", "data set", "run", "round", "sample rate", "noise multiplier", "steps", "state",
)  # fmt: skip
_WORDS = ("data set", "unit", "state", "by", "arithmetic", "last round, UTC", "time, UTC", "run")


def print_accounts(reports: Sequence[AccountReport]) -> None:
    """One line for each account; epsilons are rounded up. If data were in secure sums, both epsilons."""
    columns: tuple[str, ...] = _ACCOUNT
    rows = [_account(report) for report in reports]
    sums = any(report.total_alone is not None for report in reports)
    if sums:
        columns = (*columns[:-1], *_ALONE, columns[-1])
        rows = [(*row[:-1], *_alone(report), row[-1]) for row, report in zip(rows, reports, strict=True)]
    print_table("Data sets", columns, rows, left=_WORDS)
    if sums:
        _print_note(_WHICH)


def _print_note(text: str) -> None:
    print("\n".join(folded(text, shutil.get_terminal_size().columns)))


def _alone(report: AccountReport) -> tuple[str, str, str]:
    """Without secure sums both epsilons are the same."""
    own, total = report.epsilon_alone, report.total_alone
    return (
        alone_words(report.epsilon if own is None else own),
        "-" if report.budget_alone is None else rounded_up(report.budget_alone),
        alone_words(report.total_epsilon if total is None else total),
    )


def print_spent(reports: Sequence[AccountReport]) -> None:
    """The steps that make up the epsilons; steps of equal mechanisms are added up."""
    sums = any(entry.shared for report in reports for entry in report.spent)
    some = ("shares",) if sums else ()
    columns = ("data set", "state", "sample rate", "noise multiplier", *some, "steps")
    rows = [
        (
            report.dataset,
            _state(report),
            f"{entry.sample_rate:.6g}",
            _noise(entry),
            *(str(getattr(entry, name)) for name in some),
            str(entry.steps),
        )
        for report in reports
        for entry in report.spent
    ]
    print_table("Paid for", columns, rows, left=_WORDS)


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
