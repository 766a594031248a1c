"""What a client has spent, and what that leaves it: asked about every client in every round."""

import math
from functools import cached_property, lru_cache

from fl_dp.accounting.budget import Budget
from fl_dp.records import Entry, total_steps


class History:
    """`spent`, merged entries, held against a budget; and what more rounds of `mechanism` would do to it.

    Nothing in it changes: what was asked once is known from then on. Get it from `history_of`, which gives
    thousands of clients that are alike one between them.
    """

    def __init__(self, budget: Budget, mechanism: Entry | None, spent: tuple[Entry, ...]) -> None:
        self._budget, self._mechanism, self._spent = budget, mechanism, spent
        self._fitting: dict[int, int] = {}  # by planned steps

    @cached_property
    def epsilon(self) -> float:
        """AccountingError where there is no answer."""
        return self._budget.epsilon_of(self._spent)

    @cached_property
    def steps(self) -> int:
        return total_steps(self._spent)

    def steps_left(self, planned: int) -> int:
        """How many of `planned` steps fit the budget, as the client's own ledger would say; without privacy
        all, and without a mechanism none.
        """
        if self._mechanism is None:
            return 0
        if not self._mechanism.private:
            return planned
        if planned not in self._fitting:
            self._fitting[planned] = self._budget.steps_that_fit(
                self._mechanism.sample_rate, self._mechanism.noise_multiplier, planned, self._spent
            )
        return self._fitting[planned]

    def rounds_left(self, at_most: int) -> int:
        """In how many of `at_most` rounds more steps fit; the last one may be a short one.

        A forecast, which nothing is paid by: see `_Reach`.
        """
        if self._mechanism is None:
            return 0
        planned = at_most * self._mechanism.steps
        own, reach = self._reach
        if own + planned > reach.steps and not reach.is_all:
            fitting = self.steps_left(planned)
            reach.steps, reach.is_all = own + fitting, fitting < planned
        return math.ceil(min(planned, max(0, reach.steps - own)) / self._mechanism.steps)

    @cached_property
    def _reach(self) -> tuple[int, "_Reach"]:
        """Steps of the mechanism: those that are spent, and what is known of how many fit."""
        assert self._mechanism is not None
        rate, noise = self._mechanism.sample_rate, self._mechanism.noise_multiplier
        others = tuple(e for e in self._spent if (e.sample_rate, e.noise_multiplier) != (rate, noise))
        return self.steps - total_steps(others), _reach_of(self._budget, rate, noise, others)


class _Reach:
    """How many steps of a mechanism are known to fit, and whether not one more does.

    That fewer fit where more do is taken for granted, although the grid of an accountant may see it otherwise
    by a step. Of a client's rounds in the past and ahead the sum never grows: it is computed once or twice.
    """

    steps: int = 0
    is_all: bool = False


@lru_cache(maxsize=4096)
def history_of(budget: Budget, mechanism: Entry | None, spent: tuple[Entry, ...]) -> History:
    """The one history of all clients of which these are equal. spent: merged."""
    return History(budget, mechanism, spent)


@lru_cache(maxsize=4096)
def _reach_of(
    budget: Budget, sample_rate: float, noise_multiplier: float, others: tuple[Entry, ...]
) -> _Reach:
    """The one of all histories that differ only in how many steps of the mechanism they hold."""
    return _Reach()
