"""What a ledger holds, as `fl-dp ledger show` reports it: one report for each account."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT, check_holds_budgets
from fl_dp.accounting.alone import any_shared, compute_epsilon_alone
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.accounts import (
    Account,
    LedgerRound,
    NotedBudget,
    arithmetic_of,
    lineages,
)
from fl_dp.errors import ConfigError
from fl_dp.records import Entry, total_steps


@dataclass(frozen=True, slots=True)
class AccountReport:
    """One data set from its registration to its retirement, or until now.

    unit: what public_size counts, and whom epsilon protects: "record" or "person".
    retirements: how often these data, or data of this name, were retired before this account began.
    rounds: those that were paid for; uncommitted: how many of them sent no result.
    private: False if unprotected steps were taken; epsilon is then infinite.
    epsilon: what this account has spent at `delta`, as computed by `accountant`: that of the last budget, if
    it may hold one. arithmetic: the weakest of all its rounds and of those before it.
    budget: its upper limit; None if no round noted one.
    total_epsilon: this account and all earlier ones of these data together; infinite if their units differ.
    epsilon_alone, total_alone: the same if the assumption behind secure sums fails, infinite if none then
    holds; None if the data were in no such sums. budget_alone: the limit for it, None if there is none.
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
    steps: int
    spent: tuple[Entry, ...]
    accountant: str
    arithmetic: str
    delta: float
    epsilon: float
    budget: float | None
    total_epsilon: float
    epsilon_alone: float | None = None
    total_alone: float | None = None
    budget_alone: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON; entries are written as by `Entry.to_dict`."""
        found = asdict(self)
        found["spent"] = [entry.to_dict() for entry in self.spent]
        for paid, written in zip(self.rounds, found["rounds"], strict=True):
            written["entry"] = paid.entry.to_dict()
            if paid.budget and paid.budget.epsilon_alone is None:
                del written["budget"]["epsilon_alone"]
        if self.total_alone is None:  # the form from before secure sums
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
    # what a record has spent cannot be converted into what a person has, nor the reverse
    mixed = any(earlier.identity.unit != account.identity.unit for earlier in before if earlier.rounds)
    total_alone = None
    if any_shared(total):
        total_alone = math.inf if mixed else compute_epsilon_alone(total, delta, accountant)
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
        steps=total_steps(spent),
        spent=spent,
        accountant=accountant,
        arithmetic=arithmetic_of(paid for one in (*before, account) for paid in one.rounds),
        delta=delta,
        epsilon=compute_epsilon(spent, delta, accountant),
        budget=budget.epsilon if budget else None,
        total_epsilon=math.inf if mixed else compute_epsilon(total, delta, accountant),
        epsilon_alone=compute_epsilon_alone(spent, delta, accountant) if any_shared(spent) else None,
        total_alone=total_alone,
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
