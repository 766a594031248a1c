"""What a ledger holds, as `fl-dp ledger show` prints it: a report for each account, and tables."""

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

_WHICH = (
    "epsilon and total hold against everybody who sees only sums of clients. If somebody sees more, alone "
    "and total (alone) hold: then only each client's own share of the noise protects it. none: no useful "
    "epsilon holds."
)
_WORDS = ("data set", "unit", "state", "by", "arithmetic", "last round, UTC", "time, UTC", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReport(Cost):
    """What one account has spent: one data set from registration to retirement, or until now.

    unit: what public_size counts and epsilon protects, "record" or "person".
    retirements: how often these data, or data of this name, were retired before this account began.
    rounds: those that were paid for; uncommitted: how many of them sent no result.
    private: False if unprotected steps were taken; epsilon is then infinite.
    delta, accountant: of the epsilons; those of the last budget, if its accountant may hold budgets.
    arithmetic: the weakest of all rounds of this account and of those before it. budget: limit of epsilon.
    budget_alone: limit of epsilon_alone. Each is None if no round noted it.
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
    """The budget's accountant; the default one if this fl_dp lets it hold no budgets."""
    if budget is None:
        return DEFAULT_ACCOUNTANT
    try:
        check_holds_budgets(budget.accountant)
    except ConfigError:
        return DEFAULT_ACCOUNTANT
    return budget.accountant


def print_accounts(reports: Sequence[AccountReport]) -> None:
    """One line for each account; epsilons are rounded up. If data were in secure sums, both epsilons."""
    sums = any(report.total.epsilon_alone is not None for report in reports)
    _print("Data sets", [_account(report, sums) for report in reports])
    if sums:
        print("\n".join(folded(_WHICH, shutil.get_terminal_size().columns)))


def _account(report: AccountReport, sums: bool) -> dict[str, str]:
    """sums: add what holds if they fail; for an account without secure sums that is the same."""
    alone = {
        "alone": alone_words(report.if_sums_fail),
        "of (alone)": "-" if report.budget_alone is None else rounded_up(report.budget_alone),
        "total (alone)": alone_words(report.total.if_sums_fail),
    }
    return {
        "data set": report.dataset,
        "unit": report.unit,
        "state": _state(report),
        "rounds": str(len(report.rounds)),
        "uncommitted": str(report.uncommitted),
        "steps": str(report.taken),
        "epsilon": rounded_up(report.epsilon),
        "of": "-" if report.budget is None else rounded_up(report.budget),
        "delta": f"{report.delta:g}",
        "by": report.accountant,
        "arithmetic": report.arithmetic if report.private else "-",
        "total": rounded_up(report.total.epsilon),
        **(alone if sums else {}),
        "last round, UTC": _short(report.rounds[-1].time) if report.rounds else "-",
    }


def print_spent(reports: Sequence[AccountReport]) -> None:
    """The steps that make up the epsilons; steps of equal mechanisms are added up."""
    entries = [(report, entry) for report in reports for entry in report.charges]
    sums = any(entry.shared for _, entry in entries)
    rows = [
        {
            "data set": report.dataset,
            "state": _state(report),
            **_mechanism(entry),
            **({"shares": str(entry.shares)} if sums else {}),
            "steps": str(entry.steps),
        }
        for report, entry in entries
    ]
    _print("Paid for", rows)


def print_rounds(reports: Sequence[AccountReport]) -> None:
    """Every round, by the number of the entry that reserved it."""
    rounds = [(paid, report.dataset) for report in reports for paid in report.rounds]
    rows = [
        {
            "entry": str(paid.id),
            "time, UTC": _short(paid.time),
            "data set": dataset,
            "run": paid.run,
            "round": str(paid.server_round),
            **_mechanism(paid.entry),
            "steps": str(paid.entry.steps),
            "state": "committed" if paid.committed else "reserved",
        }
        for paid, dataset in sorted(rounds, key=lambda one: one[0].id)
    ]
    _print("Rounds", rows)


def _print(title: str, rows: Sequence[dict[str, str]]) -> None:
    """Print the rows, cells by column; nothing if there are none."""
    if rows:
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows], left=_WORDS)


def _mechanism(entry: Entry) -> dict[str, str]:
    noise = f"{entry.noise_multiplier:g}" if entry.private else NOT_PRIVATE
    return {"sample rate": f"{entry.sample_rate:.6g}", "noise multiplier": noise}


def _short(time: str) -> str:
    """An ISO 8601 time in UTC as 2026-01-31 12:00:00."""
    return time[:19].replace("T", " ")


def _state(report: AccountReport) -> str:
    mark = "" if report.private else f", {NOT_PRIVATE}"
    if report.retired is not None:
        return f"retired {report.retired[:10]}{mark}"
    before = f", retired {times(report.retirements)} before" if report.retirements else ""
    return f"in use{before}{mark}"
