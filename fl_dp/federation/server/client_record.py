"""The server's record of one client: who it is, and what it has, or may have, spent."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.events import beyond, merge
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, FlDpError
from fl_dp.federation.client.budgets import without_shares
from fl_dp.federation.server.history import History, history_of
from fl_dp.federation.server.planning import budget_of, round_mechanism
from fl_dp.records import STEADY_ROWS, ClientProfile, Entry, weakest
from fl_dp.reporting.reports import RunCost


@dataclass
class ClientRecord:
    """A registered client.

    spent: its ledger as last shown, including rounds that the server has verified.
    unconfirmed: steps that it was asked for and has not confirmed in a valid answer; they count as spent
    until it registers again.
    mechanism: of each of its rounds; without noise in a run without privacy. None if it cannot take part;
    `reason` then says why.
    exhausted: it cannot take part because its budget is spent.
    before: what it claimed to have spent when it first registered in this run.
    asked: of the steps that this run has asked it for, those that it took or may have taken.
    run_epsilon: the most that these steps may cost it, from the run's config; no part of `row`.
    rounds: the number of its accepted updates. arithmetic: the weakest claim under which anything counted as
    spent, or this run's rounds, was paid.
    """

    profile: ClientProfile
    node_id: int
    spent: tuple[Entry, ...]
    mechanism: Entry | None
    unconfirmed: tuple[Entry, ...] = ()
    exhausted: bool = False
    reason: str = ""
    rounds: int = 0
    arithmetic: str = STEADY_ROWS
    before: tuple[Entry, ...] = ()
    asked: tuple[Entry, ...] = ()
    run_epsilon: float = math.inf

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field and clear cached results. The values themselves are immutable."""
        object.__setattr__(self, name, value)
        for cached in ("budget", "row", "_history", "_of_run", "_run_wall"):
            self.__dict__.pop(cached, None)

    @property
    def name(self) -> str:
        return self.profile.client

    @cached_property
    def budget(self) -> Budget:
        return budget_of(self.profile)

    @cached_property
    def row(self) -> str:
        """All fields that are part of it, as a JSON list; the inverse of `client_of`."""
        return json.dumps(_values(self), default=entry_values, allow_nan=False, separators=(",", ":"))

    @cached_property
    def _history(self) -> History:
        """All that it has, or may have, spent."""
        return history_of(self.budget, self.mechanism, merge((*self.spent, *self.unconfirmed)))

    @cached_property
    def _of_run(self) -> History:
        """What this run has cost it: those steps that its ledger shows and that the server asked for.

        It does not depend on the client's claims about its past.
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

    @property
    def has_cost(self) -> bool:
        """Whether it has paid, or may have paid, for a round of this run."""
        return bool(self._of_run.spent)

    def run_epsilon_after(self, rounds: int) -> float:
        """The epsilon of this run for it after `rounds` more rounds, as far as its budget allows."""
        return self._epsilon_of(self._of_run, rounds)

    def _epsilon_of(self, history: History, rounds: int) -> float:
        steps = self.steps_left(rounds * self.mechanism.steps) if self.mechanism and rounds else 0
        if not steps or self.mechanism is None:
            return history.epsilon
        try:
            return self.budget.epsilon_of((*history.spent, self.mechanism.taking(steps)))
        except AccountingError:  # its ledger will decline these steps, too
            return history.epsilon

    def run_cost(self) -> RunCost | None:
        """This run's cost, apart from all else that it claims; None if its ledger shows nothing else."""
        own = self._of_run
        if own.spent == self.charges():
            return None
        return RunCost(charges=own.spent, epsilon=own.epsilon, epsilon_alone=own.epsilon_alone)

    def run_cost_at_the_end(self, rounds_ahead: int) -> RunCost | None:
        """`run_cost` with the planned epsilon of this run, and the epsilon of all that it claims besides."""
        cost = self.run_cost()
        return cost and replace(
            cost,
            planned_epsilon=self.run_epsilon_after(rounds_ahead),
            claimed_epsilon=self.budget.epsilon_of(beyond(self.charges(), cost.charges)),
        )

    def steps(self) -> int:
        return self._history.steps

    def epsilon(self) -> float:
        """Its epsilon: never below what it has really spent, if its ledger tells the truth."""
        return self._history.epsilon

    def epsilon_alone(self) -> float | None:
        """Its epsilon if the assumption behind secure sums fails; None if it was in none."""
        return self._history.epsilon_alone

    def require_accountable(self) -> None:
        """AccountingError if the accountant cannot compute what it has spent, or what a round more costs."""
        _ = self._history.epsilon
        if self.mechanism is not None:
            self._history.steps_left(self.mechanism.steps)

    def charges(self) -> tuple[Entry, ...]:
        """All that it has, or may have, spent, merged."""
        return self._history.spent

    def epsilon_after(self, rounds: int) -> float:
        """Its epsilon after `rounds` more rounds, as far as its budget allows."""
        return self._epsilon_of(self._history, rounds)

    def can_take_part(self) -> bool:
        """Whether at least one step of its next round fits its budget."""
        return self.mechanism is not None and self.steps_left(self.mechanism.steps) > 0

    def steps_left(self, planned: int) -> int:
        """How many of `planned` steps fit its budget and the run's epsilon; without privacy, all.

        0 if it cannot take part, or if the accountant cannot resolve its delta over more steps: then its own
        ledger declines.
        """
        return self._left(lambda history: history.steps_left(planned))

    def rounds_left(self, at_most: int) -> int:
        """In how many of the next `at_most` rounds it could take part; the last may have fewer steps."""
        return self._left(lambda history: history.rounds_left(at_most))

    def _left(self, of: Callable[[History], int]) -> int:
        walls = (self._history, self._run_wall) if self._run_wall else (self._history,)
        try:
            return 0 if self.exhausted else min(of(wall) for wall in walls)
        except AccountingError:
            return 0

    def count_as_spent(self, asked: Entry) -> None:
        """Count an unconfirmed round as spent, as far as its budget allows."""
        steps = self.steps_left(asked.steps)
        if steps:
            self.unconfirmed = (*self.unconfirmed, asked.taking(steps))
            self.asked = merge((*self.asked, asked.taking(steps)))

    def count_as_taken(self, asked: Entry, shown: Iterable[Entry]) -> None:
        """Count these steps of a round as taken. shown: all that it has spent by now."""
        self.spent = merge(shown)
        self.asked = merge((*self.asked, asked))


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


_PROFILE = tuple(one.name for one in dataclasses.fields(ClientProfile))
_NOT_IN_ROW = ("profile", "run_epsilon")
_RECORD = tuple(one.name for one in dataclasses.fields(ClientRecord) if one.name not in _NOT_IN_ROW)
_values = attrgetter(*(f"profile.{name}" for name in _PROFILE), *_RECORD)


def entry_values(entry: Entry) -> tuple[float, ...]:
    return tuple(entry.to_dict().values())


def client_of(row: Sequence[Any]) -> ClientRecord:
    """The inverse of `ClientRecord.row`, from parsed JSON; ValueError or TypeError if it does not fit."""
    profile = dict(zip(_PROFILE, row[: len(_PROFILE)], strict=True))
    rest = dict(zip(_RECORD, row[len(_PROFILE) :], strict=True))
    profile["spent"] = _entries(profile["spent"])
    rest |= {name: _entries(rest[name]) for name in ("spent", "unconfirmed", "before", "asked")}
    if rest["mechanism"] is not None:
        rest["mechanism"] = Entry(*rest["mechanism"])
    return ClientRecord(ClientProfile(**profile), **rest)


def _entries(rows: Iterable[Iterable[Any]]) -> tuple[Entry, ...]:
    return tuple(Entry(*row) for row in rows)


def covered(asked: Iterable[Entry], shown: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those steps that a ledger has `shown` which were asked for.

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
