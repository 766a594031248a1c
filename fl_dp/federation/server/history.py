"""What a client has spent and has left of its budget; cached, as each round asks this for each client."""

import math
from functools import cached_property, lru_cache

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.cost import Cost, cost_of
from fl_dp.errors import AccountingError
from fl_dp.records import Entry, Mechanism, total_steps


class History:
    """The cost of `spent`, merged entries, and how much more of `mechanism` the budget allows.

    It is immutable, so each answer is computed once. Get it from `history_of`: thousands of equal clients
    share one.
    """

    def __init__(self, budget: Budget, mechanism: Entry | None, spent: tuple[Entry, ...]) -> None:
        self._budget, self._mechanism, self.spent = budget, mechanism, spent
        self._fitting: dict[int, int] = {}  # by planned steps

    @cached_property
    def cost(self) -> Cost:
        """AccountingError if it cannot be computed."""
        return cost_of(self.spent, self._budget.delta, self._budget.accountant)

    def steps_left(self, planned: int) -> int:
        """How many of `planned` steps fit the budget, as the client's own ledger would decide.

        Without privacy all; without a mechanism none.
        """
        if self._mechanism is None or planned < 1:
            return 0
        if not self._mechanism.private:
            return planned
        if planned not in self._fitting:
            whole = self._mechanism.taking(planned)
            self._fitting[planned] = self._budget.steps_that_fit(whole, self.spent)
        return self._fitting[planned]

    def rounds_left(self, at_most: int) -> int:
        """In how many of `at_most` further rounds at least one step fits; the last may have fewer steps.

        This is a forecast, on which no payment depends: see `_Reach`.
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
        """The number of the mechanism's steps that are spent, and what is known of how many fit in total."""
        assert self._mechanism is not None
        mechanism = self._mechanism.mechanism
        others = tuple(one for one in self.spent if one.mechanism != mechanism)
        return total_steps(self.spent) - total_steps(others), _reach_of(self._budget, mechanism, others)


class _Reach:
    """How many steps of a mechanism are known to fit a budget, spent ones included.

    is_all: whether it is known that no more fit. If many steps fit, fewer are assumed to fit, too; if an
    accountant's grid changes with the steps, this may be off by one step.
    A client's past and future rounds are never more than the run's. So the first question is the largest, and
    one or two computations answer all.
    """

    steps: int = 0
    is_all: bool = False


@lru_cache(maxsize=4096)
def history_of(budget: Budget, mechanism: Entry | None, spent: tuple[Entry, ...]) -> History:
    return History(budget, mechanism, spent)


@lru_cache(maxsize=4096)
def _reach_of(budget: Budget, mechanism: Mechanism, others: tuple[Entry, ...]) -> _Reach:
    """The instance that is shared by histories which differ only in the mechanism's number of steps."""
    return _Reach()


def may_have_paid(asked: Entry, *histories: History) -> tuple[Entry, ...]:
    """What counts as spent if steps were asked for, and neither confirmed nor declined.

    As many steps as the client's ledger may have paid for; none if its accountant cannot resolve them, for
    the ledger then declines them. histories: of all budgets that limit the steps.
    """
    try:
        steps = min(one.steps_left(asked.steps) for one in histories)
    except AccountingError:
        return ()
    return (asked.taking(steps),) if steps else ()
