"""What a ledger holds, as `fl-dp ledger show` reports it: one report for each account, and its tables."""

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT, check_holds_budgets
from fl_dp.accounting.alone import any_shared
from fl_dp.accounting.cost import Cost, cost_of
from fl_dp.accounting.ledger.accounts import (
    Account,
    LedgerRound,
    NotedBudget,
    arithmetic_of,
    lineages,
)
from fl_dp.errors import ConfigError
from fl_dp.records import Entry
from fl_dp.reporting.console import alone_words, rounded_up, times
from fl_dp.reporting.reports import NOT_PRIVATE
from fl_dp.reporting.table import print_table
from fl_dp.reporting.wording import folded

_ACCOUNT = (
    "data set",
    "unit",
    "state",
    "rounds",
    "uncommitted",
    "steps",
    "epsilon",
    "of",
    "delta",
    "by",
    "arithmetic",
    "total",
    "last round, UTC",
)
_ALONE = ("alone", "of (alone)", "total (alone)")
_WHICH = (
    "epsilon and total hold against everybody who sees no more than sums of clients; alone and total "
    "(alone) hold if that fails, when only each client's own share of the noise protects it. none: no "
    "useful epsilon holds."
)
_ROUND = (
    "entry",
    "time, UTC",
    "data set",
    "run",
    "round",
    "sample rate",
    "noise multiplier",
    "steps",
    "state",
)
_WORDS = ("data set", "unit", "state", "by", "arithmetic", "last round, UTC", "time, UTC", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReport(Cost):
    """One data set from its registration to its retirement, or until now, and what this account has spent.

    unit: what public_size counts, and whom epsilon protects: "record" or "person".
    retirements: how often these data, or data of this name, were retired before this account began.
    rounds: those that were paid for; uncommitted: how many of them sent no result.
    private: False if unprotected steps were taken; epsilon is then infinite.
    delta, accountant: of the epsilons: those of the last budget, if its accountant may hold one. arithmetic:
    the weakest of all its rounds and of those before it. budget: the upper limit of epsilon, budget_alone: of
    epsilon_alone; None if no round noted one.
    total: of this account and all earlier ones of these data; infinite if their units differ.
    """

    dataset: str
    unit: str
    fingerprint: str
    public_size: int
    registered: str
    retired: str | None
    retirements: int
    rounds: tuple[LedgerRound, ...]
    uncommitted: int
    private: bool
    accountant: str
    arithmetic: str
    delta: float
    budget: float | None
    budget_alone: float | None
    total: Cost

    def to_dict(self) -> dict[str, Any]:
        """As JSON; entries are written as by `Entry.to_dict`."""
        found = asdict(self)
        for name in ("charges", "planned_epsilon", "claimed_epsilon", "total"):
            del found[name]
        found |= {"steps": self.taken, "spent": [entry.to_dict() for entry in self.charges]}
        found |= {"total_epsilon": self.total.epsilon, "total_alone": self.total.epsilon_alone}
        for paid, written in zip(self.rounds, found["rounds"], strict=True):
            written["entry"] = paid.entry.to_dict()
            if paid.budget and paid.budget.epsilon_alone is None:
                del written["budget"]["epsilon_alone"]
        if self.total.epsilon_alone is None:  # the form from before secure sums
            del found["epsilon_alone"], found["total_alone"], found["budget_alone"]
        return found


def account_reports(accounts: Iterable[Account], delta: float | None = None) -> list[AccountReport]:
    """A report for each account, oldest first. delta: replaces each account's own."""
    reports = [
        (account.id, _report(account, lineage[:position], delta))
        for lineage in lineages(accounts)
        for position, account in enumerate(lineage)
    ]
    return [report for _, report in sorted(reports, key=lambda pair: pair[0])]


def _report(account: Account, before: list[Account], delta: float | None) -> AccountReport:
    budget = account.last_budget()
    accountant = _accountant(budget)
    delta = account.delta() if delta is None else delta
    spent = account.spent()
    total = (*spent, *(entry for earlier in before for entry in earlier.spent()))
    own = cost_of(spent, delta, accountant)
    # what a record has spent cannot be converted into what a person has, nor the reverse
    mixed = any(earlier.identity.unit != account.identity.unit for earlier in before if earlier.rounds)
    if mixed:
        of_all = Cost(charges=(), epsilon=math.inf, epsilon_alone=math.inf if any_shared(total) else None)
    else:
        of_all = cost_of(total, delta, accountant)
    return AccountReport(
        dataset=account.dataset,
        unit=account.identity.unit,
        fingerprint=account.fingerprint,
        public_size=account.public_size,
        registered=account.registered,
        retired=account.retired,
        retirements=sum(earlier.retired is not None for earlier in before),
        rounds=account.rounds,
        uncommitted=sum(not paid.committed for paid in account.rounds),
        private=account.private,
        charges=own.charges,
        epsilon=own.epsilon,
        epsilon_alone=own.epsilon_alone,
        total=of_all,
        accountant=accountant,
        arithmetic=arithmetic_of(paid for one in (*before, account) for paid in one.rounds),
        delta=delta,
        budget=budget.epsilon if budget else None,
        budget_alone=budget.epsilon_alone if budget else None,
    )


def _accountant(budget: NotedBudget | None) -> str:
    """The budget's accountant; the default one if this fl_dp does not rely on it."""
    if budget is None:
        return DEFAULT_ACCOUNTANT
    try:
        check_holds_budgets(budget.accountant)
    except ConfigError:
        return DEFAULT_ACCOUNTANT
    return budget.accountant


def print_accounts(reports: Sequence[AccountReport]) -> None:
    """One line for each account; epsilons are rounded up. If data were in secure sums, both epsilons."""
    columns: tuple[str, ...] = _ACCOUNT
    rows = [_account(report) for report in reports]
    sums = any(report.total.epsilon_alone is not None for report in reports)
    if sums:
        columns = (*columns[:-1], *_ALONE, columns[-1])
        rows = [(*row[:-1], *_alone(report), row[-1]) for row, report in zip(rows, reports, strict=True)]
    print_table("Data sets", columns, rows, left=_WORDS)
    if sums:
        print("\n".join(folded(_WHICH, shutil.get_terminal_size().columns)))


def _alone(report: AccountReport) -> tuple[str, str, str]:
    """Without secure sums both epsilons are the same."""
    return (
        alone_words(report.if_sums_fail),
        "-" if report.budget_alone is None else rounded_up(report.budget_alone),
        alone_words(report.total.if_sums_fail),
    )


def print_spent(reports: Sequence[AccountReport]) -> None:
    """The steps that make up the epsilons; steps of equal mechanisms are added up."""
    sums = any(entry.shared for report in reports for entry in report.charges)
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
        for entry in report.charges
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
        str(report.taken),
        rounded_up(report.epsilon),
        "-" if report.budget is None else rounded_up(report.budget),
        f"{report.delta:g}",
        report.accountant,
        report.arithmetic if report.private else "-",
        rounded_up(report.total.epsilon),
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
