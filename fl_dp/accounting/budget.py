"""Budgets: what one client may spend, and what all clients together guarantee for a record."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT, check_holds_budgets
from fl_dp.accounting.alone import alone_of, compute_epsilon_alone, with_least_shares
from fl_dp.accounting.calibration import steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon, in_digits
from fl_dp.errors import ConfigError
from fl_dp.records import Entry

_MOST_RECORDS = 10**15  # with more, delta is 1e-16 or less, which no accountant resolves over some steps


def auto_delta(public_size: int) -> float:
    """The largest power of ten strictly below 1 / public_size, at most 1e-5.

    | public_size | 1    | 99_999 | 100_000 | 60_000_000 |
    |-------------|------|--------|---------|------------|
    | delta       | 1e-5 | 1e-5   | 1e-6    | 1e-8       |
    """
    if public_size < 1:
        raise ConfigError(f"Expected public_size={public_size} >= 1.")
    if public_size > _MOST_RECORDS:
        raise ConfigError(f"Expected public_size of at most {_MOST_RECORDS:g}; name a delta instead.")
    return float(f"1e-{max(5, len(str(public_size)))}")


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that one data set may spend: `epsilon` at `delta`, computed by the accountant.

    epsilon_alone: a second limit, on what all steps cost if the assumption behind secure sums fails
    (`accounting/alone.py`); None if there is none.
    ConfigError for an accountant that may not hold a budget (`check_holds_budgets`).
    """

    epsilon: float
    delta: float
    accountant: str = DEFAULT_ACCOUNTANT
    epsilon_alone: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < float("inf"):
            raise ConfigError(f"Expected epsilon={self.epsilon} > 0 and finite.")
        if self.epsilon_alone is not None and not 0.0 < self.epsilon_alone < float("inf"):
            raise ConfigError(f"Expected epsilon_alone={self.epsilon_alone} > 0 and finite, or None.")
        if not 0.0 < self.delta < 1.0:
            raise ConfigError(f"Expected delta={self.delta} in (0, 1).")
        check_holds_budgets(self.accountant)

    def epsilon_of(self, entries: Iterable[Entry]) -> float:
        """What the entries have spent, at this budget's delta."""
        return compute_epsilon(entries, self.delta, self.accountant)

    def epsilon_alone_of(self, entries: Iterable[Entry]) -> float:
        """What they have spent if the assumption behind secure sums fails; infinite if nothing holds then."""
        return compute_epsilon_alone(entries, self.delta, self.accountant)

    def in_words(self, spent: Iterable[Entry]) -> str:
        """ "epsilon 2.9917 of 3 is spent at delta 1e-05, by pld"."""
        spent = tuple(spent)
        so_far = f"epsilon {in_digits(self.epsilon_of(spent), 5)} of {self.epsilon:g} is spent"
        words = f"{so_far} at delta {self.delta:g}, by {self.accountant}"
        if self.epsilon_alone is None:
            return words
        return (
            f"{words}; if the assumption behind secure sums fails, "
            f"{in_digits(self.epsilon_alone_of(spent), 5)} of {self.epsilon_alone:g}"
        )

    def steps_that_fit(self, planned: Entry, spent: Iterable[Entry]) -> int:
        """How many of the planned steps stay within the budget after `spent`."""
        spent = tuple(spent)
        fitting = steps_that_fit(planned, self.epsilon, self.delta, spent=spent, accountant=self.accountant)
        if self.epsilon_alone is None or fitting < 1 or not planned.private:
            return fitting
        *spent, one = with_least_shares((*spent, planned))
        alone = one.alone().taking(fitting)
        before = alone_of(spent)
        return steps_that_fit(alone, self.epsilon_alone, self.delta, spent=before, accountant=self.accountant)


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """The federation's guarantee: (epsilon, delta) for a record, or person, of one client.

    largest, median, least: epsilons of single clients.
    """

    epsilon: float
    delta: float
    largest: float
    median: float
    least: float


def federation_budget(guarantees: Sequence[tuple[float, float]]) -> BudgetReport:
    """Compose the clients' (epsilon, delta).

    The clients' data are disjoint, so parallel composition gives the largest epsilon and the largest delta
    (McSherry 2009, "Privacy Integrated Queries", theorem 4); what the other clients do with the model in
    between is post-processing.
    """
    if not guarantees:
        raise ConfigError("Expected the (epsilon, delta) of at least one client, got none.")
    epsilons, deltas = zip(*guarantees, strict=True)
    return BudgetReport(
        epsilon=max(epsilons),
        delta=max(deltas),
        largest=max(epsilons),
        median=statistics.median(epsilons),
        least=min(epsilons),
    )
