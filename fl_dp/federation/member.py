"""One client as the server sees it: who it is, and what it has, or may have, spent."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.events import merge
from fl_dp.records import ClientProfile, Entry, total_steps


@dataclass
class Member:
    """A client that has said hello.

    spent: its ledger as it last showed it, rounds that the server has verified included.
    unaccounted: steps that it was asked for and of which it has given no believable account; they
    count as spent until it says hello again.
    mechanism: of each of its rounds, not private in a run without privacy; None if it cannot take part,
    `reason` says why.
    exhausted: it cannot take part for want of budget.
    rounds: its accepted updates.
    """

    profile: ClientProfile
    node_id: int
    spent: tuple[Entry, ...]
    mechanism: Entry | None
    unaccounted: tuple[Entry, ...] = ()
    exhausted: bool = False
    reason: str = ""
    rounds: int = 0

    @property
    def name(self) -> str:
        return self.profile.client

    @cached_property
    def budget(self) -> Budget:
        return Budget(self.profile.epsilon, self.profile.delta, self.profile.accountant)

    def possibly_spent(self) -> tuple[Entry, ...]:
        return merge((*self.spent, *self.unaccounted))

    def steps(self) -> int:
        return total_steps(self.possibly_spent())

    def epsilon(self) -> float:
        """Never below what it has really spent, if its ledger tells the truth."""
        return self.budget.epsilon_of(self.possibly_spent())

    def steps_left(self, planned: int) -> int:
        """How many of `planned` steps fit its budget, without privacy all; 0 if it takes no part."""
        if self.mechanism is None or self.exhausted:
            return 0
        if not self.mechanism.private:
            return planned
        return _steps_left(self.budget, self.mechanism, planned, self.possibly_spent())

    def rounds_left(self, at_most: int) -> int:
        """In how many of `at_most` rounds more it could take part; the last one may be a short one."""
        if self.mechanism is None:
            return 0
        whole = self.mechanism.steps
        return math.ceil(self.steps_left(at_most * whole) / whole)

    def count_as_spent(self, asked: Entry) -> None:
        """It was asked for a round and has not accounted for it: count what its budget lets it take."""
        steps = self.steps_left(asked.steps)
        if steps:
            taken = Entry(asked.sample_rate, asked.noise_multiplier, steps)
            self.unaccounted = (*self.unaccounted, taken)


@lru_cache(maxsize=4096)
def _steps_left(budget: Budget, mechanism: Entry, planned: int, spent: tuple[Entry, ...]) -> int:
    """Every client is asked about in every round, and thousands are alike."""
    return budget.steps_that_fit(mechanism.sample_rate, mechanism.noise_multiplier, planned, spent)


def shows_less(shown: Iterable[Entry], seen: Iterable[Entry]) -> bool:
    """Whether a ledger that shows `shown` lacks steps that were `seen` in it before."""
    steps = {(entry.sample_rate, entry.noise_multiplier): entry.steps for entry in merge(shown)}
    return any(
        steps.get((entry.sample_rate, entry.noise_multiplier), 0) < entry.steps for entry in merge(seen)
    )
