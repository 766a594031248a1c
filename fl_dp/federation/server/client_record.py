"""One client as the server sees it: who it is, and what it has, or may have, spent."""

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
from fl_dp.federation.server.history import History, history_of
from fl_dp.federation.server.planning import round_mechanism
from fl_dp.records import STEADY_ROWS, ClientProfile, Entry, weakest
from fl_dp.reporting.reports import RunCost


@dataclass
class ClientRecord:
    """A client that has registered.

    spent: its ledger as it last showed it, rounds that the server has verified included.
    unconfirmed: steps that it was asked for and has not confirmed in a believable answer; they count as
    spent until it registers again.
    mechanism: of each of its rounds, not private in a run without privacy; None if it cannot take part,
    `reason` says why.
    exhausted: it cannot take part for want of budget.
    before: what it said that it had spent, when it first registered in this run.
    asked: the steps that this run has asked it for, as many as it said that it took, or may have taken.
    run_epsilon: the most that they may cost it, by the run's config, which no row repeats.
    rounds: its accepted updates. arithmetic: of all that is counted as spent and of this run's rounds.
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
        """Set a field, and clear the cached results. The values themselves never change."""
        object.__setattr__(self, name, value)
        for cached in ("budget", "row", "_history", "_of_run", "_run_wall"):
            self.__dict__.pop(cached, None)

    @property
    def name(self) -> str:
        return self.profile.client

    @cached_property
    def budget(self) -> Budget:
        one = self.profile
        return Budget(one.epsilon, one.delta, one.accountant, one.epsilon_alone or None)

    @cached_property
    def row(self) -> str:
        """All its fields, as a row of JSON; `client_of` reads it."""
        return json.dumps(_values(self), default=_entry_values, allow_nan=False, separators=(",", ":"))

    @cached_property
    def _history(self) -> History:
        """Of all that it has, or may have, spent."""
        return history_of(self.budget, self.mechanism, merge((*self.spent, *self.unconfirmed)))

    @cached_property
    def _of_run(self) -> History:
        """Of what this run has cost it: its ledger says whether it paid, the server what it can have paid.

        A claim about its past is in nothing of it.
        """
        shown = beyond((*self.spent, *self.unconfirmed), self.before)
        return history_of(self.budget, self.mechanism, covered(self.asked, shown))

    @cached_property
    def _run_wall(self) -> History | None:
        """What this run has cost it, held against `run_epsilon`; None where its own budget ends before."""
        if self.run_epsilon >= self.budget.epsilon:
            return None
        wall = replace(self.budget, epsilon=self.run_epsilon, epsilon_alone=None)
        return history_of(wall, self.mechanism, self._of_run.spent)

    @property
    def run_is_spent(self) -> bool:
        """Whether it has budget for a step that would cost more than the run's epsilon."""
        if self._run_wall is None or self.exhausted or self.can_take_part():
            return False
        try:
            return self._history.steps_left(1) > 0
        except AccountingError:
            return False

    @property
    def to_ask(self) -> Entry:
        """What its next round asks for: fewer steps where the run's epsilon ends within it."""
        assert self.mechanism is not None  # only clients that can take a step are asked
        if self._run_wall is None:
            return self.mechanism
        return self.mechanism.taking(max(1, self._run_wall.steps_left(self.mechanism.steps)))

    @property
    def has_cost(self) -> bool:
        """Whether it has paid, or may have paid, for a round of this run."""
        return bool(self._of_run.spent)

    def run_epsilon_after(self, rounds: int) -> float:
        """What this run will have cost it after `rounds` rounds more, as far as its budget goes."""
        return self._epsilon_of(self._of_run, rounds)

    def _epsilon_of(self, history: History, rounds: int) -> float:
        steps = self.steps_left(rounds * self.mechanism.steps) if self.mechanism and rounds else 0
        if not steps or self.mechanism is None:
            return history.epsilon
        try:
            return self.budget.epsilon_of((*history.spent, self.mechanism.taking(steps)))
        except AccountingError:  # its ledger declines them, too
            return history.epsilon

    def run_cost(self) -> RunCost | None:
        """Apart from what it claims beside; None where its ledger shows nothing else."""
        own = self._of_run
        if own.spent == self.charges():
            return None
        return RunCost(own.spent, own.epsilon, own.epsilon_alone)

    def run_cost_at_the_end(self, rounds_ahead: int) -> RunCost | None:
        """With what it will be, and what everything beside it has cost."""
        cost = self.run_cost()
        return cost and replace(
            cost,
            planned_epsilon=self.run_epsilon_after(rounds_ahead),
            claimed_epsilon=self.budget.epsilon_of(beyond(self.charges(), cost.charges)),
        )

    def steps(self) -> int:
        return self._history.steps

    def epsilon(self) -> float:
        """Never below what it has really spent, if its ledger tells the truth."""
        return self._history.epsilon

    def epsilon_alone(self) -> float | None:
        """If the assumption behind secure sums fails; None where it has been in none."""
        return self._history.epsilon_alone

    def require_accountable(self) -> None:
        """AccountingError where the accountant cannot tell what it has spent, or what a round more costs."""
        _ = self._history.epsilon
        if self.mechanism is not None:
            self._history.steps_left(self.mechanism.steps)

    def charges(self) -> tuple[Entry, ...]:
        """All that it has, or may have, spent, merged."""
        return self._history.spent

    def epsilon_after(self, rounds: int) -> float:
        """What it will have spent if it takes part in `rounds` rounds more, as far as its budget goes."""
        return self._epsilon_of(self._history, rounds)

    def budget_left(self) -> float:
        """The share of its budget that is left, at least a thousandth; 1 without privacy."""
        if self.mechanism is None or not self.mechanism.private:
            return 1.0
        return max(1e-3, 1.0 - self.epsilon() / self.profile.epsilon)

    def can_take_part(self) -> bool:
        """Whether at least one step of its next round fits its budget."""
        return self.mechanism is not None and self.steps_left(self.mechanism.steps) > 0

    def steps_left(self, planned: int) -> int:
        """How many of `planned` steps fit its budget and the run's epsilon, without privacy all.

        0 if it takes no part, and where the accountant cannot resolve its delta over more steps: its own
        ledger then declines.
        """
        return self._left(lambda history: history.steps_left(planned))

    def rounds_left(self, at_most: int) -> int:
        """In how many of `at_most` rounds more it could take part; the last one may be a short one."""
        return self._left(lambda history: history.rounds_left(at_most))

    def _left(self, of: Callable[[History], int]) -> int:
        walls = (self._history, self._run_wall) if self._run_wall else (self._history,)
        try:
            return 0 if self.exhausted else min(of(wall) for wall in walls)
        except AccountingError:
            return 0

    def count_as_spent(self, asked: Entry) -> None:
        """It was asked for a round and has not confirmed it: count what its budget lets it take."""
        steps = self.steps_left(asked.steps)
        if steps:
            self.unconfirmed = (*self.unconfirmed, asked.taking(steps))
            self.asked = merge((*self.asked, asked.taking(steps)))

    def count_as_taken(self, asked: Entry, shown: Iterable[Entry]) -> None:
        """It has taken these steps of a round; `shown`: all that it has spent by now."""
        self.spent = merge(shown)
        self.asked = merge((*self.asked, asked))


def record_of(profile: ClientProfile, config: RunConfig, node: int = 0, rounds: int = 0) -> ClientRecord:
    """The client, with what one round does at it, or with the reason why it has no part in the run."""
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
    """Of what the client has spent, and of this run's rounds."""
    return weakest((profile.arithmetic, config.arithmetic))


_PROFILE = tuple(one.name for one in dataclasses.fields(ClientProfile))
_RECORD = tuple(
    one.name for one in dataclasses.fields(ClientRecord) if one.name not in ("profile", "run_epsilon")
)
_values = attrgetter(*(f"profile.{name}" for name in _PROFILE), *_RECORD)


def _entry_values(entry: Entry) -> tuple[float, ...]:
    values = entry.sample_rate, entry.noise_multiplier, entry.steps
    return (*values, entry.shares, entry.copies) if entry.shared else values


def client_of(row: Sequence[Any]) -> ClientRecord:
    """The client whose `row`, parsed, this is; ValueError or TypeError if it is none's."""
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
    """Of the steps that a ledger has `shown`, those that were asked for.

    A secure sum may have had fewer shares than were asked for, and then it is the ledger that says how many.
    """
    room: Counter[tuple[float, float, int]] = Counter()
    most: dict[tuple[float, float, int], int] = {}
    for one in asked:
        room[key := _without_shares(one)] += one.steps
        most[key] = max(most.get(key, 0), one.shares)
    found = []
    for one in sorted(merge(shown), key=lambda one: -one.shares):
        key = _without_shares(one)
        steps = min(one.steps, room[key])
        if steps and one.shares <= most[key]:
            room[key] -= steps
            found.append(one.taking(steps))
    return merge(found)


def _without_shares(one: Entry) -> tuple[float, float, int]:
    return one.sample_rate, one.noise_multiplier, one.copies


def shows_less(shown: Iterable[Entry], seen: Iterable[Entry]) -> bool:
    """Whether a ledger that shows `shown` lacks steps that were `seen` in it before."""
    steps = {entry.mechanism: entry.steps for entry in merge(shown)}
    return any(steps.get(entry.mechanism, 0) < entry.steps for entry in merge(seen))
