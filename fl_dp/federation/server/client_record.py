"""The server's record of one client: who it is, and what it was asked for and has, or may have, paid."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Self

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.cost import Cost, Epsilon, cost_of
from fl_dp.accounting.events import beyond, merge
from fl_dp.accounting.one_mechanism import without_shares
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, FlDpError
from fl_dp.federation.server.history import History, history_of, may_have_paid
from fl_dp.federation.server.planning import budget_of, round_mechanism
from fl_dp.records import STEADY_ROWS, ClientProfile, Entry, weakest
from fl_dp.reporting.reports import TestAccount
from fl_dp.schema import Count, Range


@dataclass(frozen=True)
class AccountOfTests:
    """A site's account of test records. budget, charges: as last shown; None: not shown in this run.

    unheard: the number of evaluations since then that it may have paid for. A site pays before it answers: if
    it neither showed its account nor declined, it may have paid.
    """

    budget: Budget | None = None
    charges: tuple[Entry, ...] = ()
    unheard: Count = 0

    def line(self, profile: ClientProfile, status: str, reason: str) -> TestAccount:
        """The account in reports: an upper bound until the site shows it again.

        If a site has shown nothing, its whole budget counts: what it paid in earlier runs is unknown. Its
        delta is then the larger of the delta of training and the largest that "auto" gives.
        """
        if self.budget is None:
            # fl_dp 1.0 evaluated in secure sums, too
            alone = (profile.epsilon_alone or math.inf) if profile.allow_secure_sum else None
            cost = Cost(charges=(), epsilon=profile.evaluate_epsilon, epsilon_alone=alone)
            budget, delta = profile.evaluate_epsilon, max(profile.delta, auto_delta(1))
        else:
            budget, delta = self.budget.epsilon, self.budget.delta
            cost = cost_of(self._at_most(self.budget), delta, self.budget.accountant)
        return TestAccount(
            status=status,
            reason=reason,
            epsilon=cost.epsilon,
            epsilon_alone=cost.epsilon_alone,
            charges=cost.charges,
            delta=delta,
            budget=budget,
            accountant=self.budget.accountant if self.budget else profile.accountant,
            unheard=self.unheard,
        )

    def _at_most(self, budget: Budget) -> tuple[Entry, ...]:
        """The charges and the evaluations since, all of one noise, as far as the budget allows."""
        charges = self.charges
        for _ in range(self.unheard):
            one = Entry(1.0, self.charges[0].noise_multiplier, 1)
            more = may_have_paid(one, history_of(budget, one, charges))
            if not more:
                break
            charges = merge((*charges, *more))
        return charges


@dataclass(frozen=True)
class ClientRecord:
    """A registered client.

    spent: its ledger as last shown, including rounds that the server has verified.
    unconfirmed: steps that it was asked for and has not confirmed in a valid answer; they count as spent
    until it registers again.
    mechanism: of each of its rounds; without noise in a run without privacy. None if it cannot take part;
    `reason` then says why.
    exhausted: it cannot take part because its budget is spent.
    rounds: the number of its accepted updates. arithmetic: the weakest arithmetic in what it has spent and in
    this run's rounds.
    before: what it claimed to have spent when it first registered in this run.
    asked: the steps of this run that it took or may have taken.
    tests: its account of test records; None if it has none, as far as the server knows.
    run_epsilon: the most that these steps may cost it, from the run's config.
    """

    profile: ClientProfile
    node_id: Annotated[int, Range(0, 2**64 - 1)]
    spent: tuple[Entry, ...]
    mechanism: Entry | None
    unconfirmed: tuple[Entry, ...] = ()
    exhausted: bool = False
    reason: str = ""
    rounds: Count = 0
    arithmetic: str = STEADY_ROWS
    before: tuple[Entry, ...] = ()
    asked: tuple[Entry, ...] = ()
    tests: AccountOfTests | None = None
    run_epsilon: Epsilon = math.inf

    @property
    def name(self) -> str:
        return self.profile.client

    @cached_property
    def budget(self) -> Budget:
        return budget_of(self.profile)

    @cached_property
    def _history(self) -> History:
        return history_of(self.budget, self.mechanism, merge((*self.spent, *self.unconfirmed)))

    @cached_property
    def _of_run(self) -> History:
        """What this run has cost it: the steps that its ledger shows and that the server asked for.

        This does not depend on the client's claims about its past.
        """
        shown = beyond((*self.spent, *self.unconfirmed), self.before)
        return history_of(self.budget, self.mechanism, covered(self.asked, shown))

    @cached_property
    def _run_wall(self) -> History | None:
        """What this run has cost it, with `run_epsilon` as the budget; None if its own is no larger."""
        if self.run_epsilon >= self.budget.epsilon:
            return None
        wall = replace(self.budget, epsilon=self.run_epsilon, epsilon_alone=None)
        return history_of(wall, self.mechanism, self._of_run.spent)

    @property
    def _walls(self) -> tuple[History, ...]:
        return (self._history, self._run_wall) if self._run_wall else (self._history,)

    @property
    def cost(self) -> Cost:
        """Everything that it has, or may have, spent: never below the truth if its ledger is true."""
        return self._history.cost

    @property
    def cost_of_run(self) -> Cost:
        return self._of_run.cost

    @property
    def has_cost(self) -> bool:
        """Whether it has paid, or may have paid, for a round of this run."""
        return bool(self._of_run.spent)

    @property
    def turns(self) -> int:
        """The rounds of this run that it has paid for, or may have."""
        steps = sum(one.steps for one in self.asked)
        return math.ceil(steps / self.mechanism.steps) if self.mechanism else 0

    @property
    def has_more_than_the_run(self) -> bool:
        """Whether its ledger shows anything but what this run has cost it."""
        return self._of_run.spent != self._history.spent

    @property
    def run_is_spent(self) -> bool:
        """Whether only the run's epsilon, not its own budget, rules out one more step."""
        if self._run_wall is None or self.exhausted or self.can_take_part():
            return False
        try:
            return self.mechanism is not None and self._history.steps_left(1) > 0
        except AccountingError:
            return False

    @property
    def to_ask(self) -> Entry:
        """The mechanism of its next round, with fewer steps if the run's epsilon allows no more."""
        assert self.mechanism is not None  # only clients that can take a step are asked
        if self._run_wall is None:
            return self.mechanism
        left = self._run_wall.steps_left(self.mechanism.steps)
        return self.mechanism.taking(max(1, left))

    def epsilon_after(self, rounds: int) -> float:
        """Its epsilon after `rounds` more rounds, as far as its budget allows."""
        return self._epsilon_of(self._history, rounds)

    def run_epsilon_after(self, rounds: int) -> float:
        """The epsilon of this run for it after `rounds` more rounds, as far as its budget allows."""
        return self._epsilon_of(self._of_run, rounds)

    def _epsilon_of(self, history: History, rounds: int) -> float:
        steps = self.steps_left(rounds * self.mechanism.steps) if self.mechanism and rounds else 0
        if not steps or self.mechanism is None:
            return history.cost.epsilon
        try:
            return self.budget.epsilon_of((*history.spent, self.mechanism.taking(steps)))
        except AccountingError:  # its ledger will decline these steps, too
            return history.cost.epsilon

    def require_accountable(self) -> None:
        """AccountingError if the accountant cannot compute what it has spent, or what another round costs."""
        _ = self.cost
        if self.mechanism is not None:
            self._history.steps_left(self.mechanism.steps)

    def can_take_part(self) -> bool:
        """Whether at least one step of its next round fits its budget."""
        return self.mechanism is not None and self.steps_left(self.mechanism.steps) > 0

    def steps_left(self, planned: int) -> int:
        """How many of `planned` steps fit its budget and the run's epsilon; without privacy, all.

        0 if it cannot take part. Also 0 if the accountant cannot resolve its delta over more steps: its own
        ledger then declines.
        """
        return self._left(lambda history: history.steps_left(planned))

    def rounds_left(self, at_most: int) -> int:
        """In how many of the next `at_most` rounds it could take part; the last may have fewer steps."""
        return self._left(lambda history: history.rounds_left(at_most))

    def _left(self, of: Callable[[History], int]) -> int:
        try:
            return 0 if self.exhausted else min(map(of, self._walls))
        except AccountingError:
            return 0

    def not_confirming(self, asked: Entry) -> Self:
        """The record after a round that it may have paid for and has not confirmed."""
        more = () if self.exhausted else may_have_paid(asked, *self._walls)
        asked_of_it = merge((*self.asked, *more)) if more else self.asked
        return replace(self, unconfirmed=(*self.unconfirmed, *more), asked=asked_of_it)

    def having_taken(self, asked: Entry, shown: Iterable[Entry]) -> Self:
        """The record after these steps of a round. shown: all that it has spent by now."""
        return replace(self, spent=merge(shown), asked=merge((*self.asked, asked)))


def record_of(profile: ClientProfile, config: RunConfig, node: int = 0, rounds: int = 0) -> ClientRecord:
    """The client's record, with its mechanism, or with the reason why it cannot take part."""
    mechanism, reason, exhausted = None, "", False
    try:
        mechanism = round_mechanism(profile, config)
    except FlDpError as error:
        reason, exhausted = str(error), isinstance(error, AccountingError)
    return ClientRecord(
        profile,
        node,
        profile.spent,
        mechanism,
        exhausted=exhausted,
        reason=reason,
        rounds=rounds,
        arithmetic=total_arithmetic(profile, config),
        before=profile.spent,
        run_epsilon=config.epsilon,
    )


def total_arithmetic(profile: ClientProfile, config: RunConfig) -> str:
    """The weakest claim of what the client has spent and of this run's rounds."""
    return weakest((profile.arithmetic, config.arithmetic))


def covered(asked: Iterable[Entry], shown: Iterable[Entry]) -> tuple[Entry, ...]:
    """The steps that a ledger has `shown` and that were asked for.

    A secure sum may have had fewer shares than requested; the ledger then says how many.
    """
    room: Counter[tuple[float, float]] = Counter()
    most: dict[tuple[float, float], int] = {}
    for one in asked:
        room[key := without_shares(one)] += one.steps
        most[key] = max(most.get(key, 0), one.shares)
    found = []
    for one in sorted(merge(shown), key=lambda one: -one.shares):
        key = without_shares(one)
        steps = min(one.steps, room[key])
        if steps and one.shares <= most[key]:
            room[key] -= steps
            found.append(one.taking(steps))
    return merge(found)


def shows_less(shown: Iterable[Entry], seen: Iterable[Entry]) -> bool:
    """Whether a ledger that now shows `shown` lacks steps that were `seen` in it before."""
    steps = {entry.mechanism: entry.steps for entry in merge(shown)}
    return any(steps.get(entry.mechanism, 0) < entry.steps for entry in merge(seen))
