"""Accounts: what a ledger's events say about every data set."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated

from fl_dp.accounting.budget import auto_delta
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.event_log import Event
from fl_dp.accounting.ledger.identity import Identity, IdentityIndex, kin_groups
from fl_dp.errors import ConfigError, LedgerError
from fl_dp.records import ARITHMETICS, UNKNOWN_STEPS, Entry, unknown_steps, weakest
from fl_dp.schema import EXACT, Count, Range, Read, UnfitError, read

# The kind of an entry that reserves a round without protection. Older ledgers have this word, so it stays.
UNPROTECTED = "expose"
# The kind of an entry that reserves steps of a secure sum. An fl_dp that does not know shares cannot read
# this kind, and so never takes the entry for less than it is.
SHARED = "reserve-shared"
# Kinds of entries that fl_dp 1.0 wrote, whose cost or meaning this fl_dp does not know.
_UNKNOWN_KINDS = {
    "reserve-passes": f"paid for {UNKNOWN_STEPS['pass_steps']}",
    "list": "is a list of noise multipliers that its account keeps to",
}
# The arithmetic of fl_dp 0.1.0, which noted this word or none. Its claim was refuted (docs/privacy.md).
_REFUTED = "assumed"
# In every entry of a ledger that a run made for itself alone; an older fl_dp ignores it.
ONE_RUN = "one_run"


def _number(found: object) -> float:
    """A number as JSON has it: a whole one may stand without a point."""
    if type(found) not in (int, float) or not abs(found) < 1.7e308:  # type: ignore[arg-type]
        raise ValueError("expected a number")
    return found  # type: ignore[return-value]


_Number = Annotated[float, Read(_number)]
_Positive = Annotated[int, Range(1, EXACT - 1)]


@dataclass(frozen=True, slots=True)
class NotedBudget:
    """The budget against which a round was checked, as noted then; it is not checked again.

    A ledger must open whatever accountant it names, even one that this fl_dp does not have, or does not allow
    to hold a budget. epsilon_alone: None if there was no second limit.
    """

    epsilon: _Number
    delta: _Number
    accountant: str
    epsilon_alone: _Number | None = None


@dataclass(frozen=True, slots=True)
class _Registered:
    """What an entry of kind "register" has beside the `Identity`."""

    public_size: _Positive
    time: str


@dataclass(frozen=True, slots=True)
class _Reserved:
    """What an entry that pays for a round has."""

    dataset: str
    time: str
    run: str
    round: Count
    sample_rate: _Number
    steps: _Positive
    noise_multiplier: _Number
    shares: int = 1
    budget: NotedBudget | None = None
    arithmetic: str = _REFUTED
    inputs: str = ""


@dataclass(frozen=True, slots=True)
class _Committed:
    reserved: int


@dataclass(frozen=True, slots=True)
class _Retired:
    dataset: str
    time: str


KINDS = (Identity, _Registered, _Reserved, _Committed, _Retired)  # what entries are read as


@dataclass(frozen=True, slots=True)
class LedgerRound:
    """A round that was paid for.

    id: number of the event that reserved it; time: of that event, UTC, ISO 8601. committed: whether its
    result was about to leave; its steps are spent in either case.
    budget: None for a round without protection, which no budget covers, and for one paid for by an older
    fl_dp that did not note it. arithmetic, inputs: as in its `ReservationRequest`.
    """

    id: int
    time: str
    run: str
    server_round: int
    entry: Entry
    budget: NotedBudget | None
    committed: bool
    arithmetic: str
    inputs: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """A data set under one name, from the event that registered it until it was retired.

    id: number of the event that registered it; public_size: its number of records, as declared then;
    rounds: in the order of their reservations.
    registered, retired: times; retired is None for an account in use.
    """

    id: int
    identity: Identity
    public_size: int
    registered: str
    rounds: tuple[LedgerRound, ...]
    retired: str | None

    @property
    def dataset(self) -> str:
        return self.identity.dataset

    @property
    def fingerprint(self) -> str:
        return self.identity.fingerprint

    def spent(self) -> tuple[Entry, ...]:
        """All that was paid for, reserved or committed, with equal mechanisms merged."""
        return merge(paid.entry for paid in self.rounds)

    @property
    def private(self) -> bool:
        """Whether an epsilon holds for it; not after any training without protection."""
        return all(paid.entry.private for paid in self.rounds)

    def last_budget(self) -> NotedBudget | None:
        """The budget of the last round that noted one; None if none has."""
        return next((paid.budget for paid in reversed(self.rounds) if paid.budget), None)

    def delta(self) -> float:
        """The delta of the last budget, or what "auto" would give."""
        budget = self.last_budget()
        return budget.delta if budget else auto_delta(self.public_size)


class AccountBook:
    """The accounts of a ledger, updated with one event after the other.

    of_one_run: whether each entry says that the ledger was made for its run alone; True if there are none.
    """

    def __init__(self) -> None:
        self.retirements, self.of_one_run = 0, True
        self.in_use: dict[str, OpenAccount] = {}  # by data set
        self.identities = IdentityIndex()  # of the data sets in use
        self._accounts: list[OpenAccount] = []
        self._by_reservation: dict[int, OpenAccount] = {}
        self._taken: dict[tuple[str, str, int], LedgerRound] = {}  # by data set, run and round

    def add(self, event: Event) -> None:
        """Apply the next event; LedgerError, with its number, for one that no ledger can have written."""
        try:
            self._apply(event)
        except ConfigError as error:
            what = f"it has {error.words}" if isinstance(error, UnfitError) else str(error).rstrip(".")
            raise LedgerError(
                f"entry {event.id} of the ledger: {what}. It was edited, so it is not known what the data "
                "have spent. Nothing was changed or paid; restore the file from a copy."
            ) from None

    def _apply(self, event: Event) -> None:
        self.of_one_run = self.of_one_run and event.content.get(ONE_RUN) is True
        _require_known_steps(event)
        match event.content.get("kind"):
            case "register":
                self._register(event)
            case "reserve" | "expose" | "reserve-shared":  # UNPROTECTED, SHARED
                self._reserve(event)
            case "commit":
                self._commit(event)
            case "retire":
                self._retire(event)
            case kind:
                raise LedgerError(
                    f"entry {event.id} of the ledger is a {kind!r:.40}, which this fl_dp cannot read; use a "
                    "newer one."
                )

    def accounts(self) -> list[Account]:
        """All accounts, also retired ones, in the order in which they were opened."""
        return [one.account() for one in self._accounts]

    def taken(self, dataset: str, run: str, server_round: int) -> LedgerRound | None:
        """The round, if this data set, or a retired one of the same name, has already paid for it."""
        return self._taken.get((dataset, run, server_round))

    def holder(self, reservation: int) -> str | None:
        """The data set in use whose reservation has that number and is not committed; None without one."""
        held = self._by_reservation.get(reservation)
        is_open = held and held.retired is None and not held.rounds[reservation].committed
        return held.opened.dataset if held and is_open else None

    def paid(self, reservation: int) -> tuple[str, LedgerRound]:
        """The data set, in use or retired, and the round whose reservation has that number.

        LedgerError if there is none.
        """
        held = self._by_reservation.get(reservation)
        if held is None:
            raise LedgerError(
                f"entry {reservation} of the ledger is not a reservation; restore the file from a copy."
            )
        return held.opened.dataset, held.rounds[reservation]

    def _register(self, event: Event) -> None:
        found = _identity(event)
        declared = read(_Registered, event.content, others=True)
        identity = found.completed(self.identities.part(found.source, found.cut))
        opened = OpenAccount(Account(event.id, identity, declared.public_size, declared.time, (), None))
        self._accounts.append(opened)
        self.in_use[identity.dataset] = opened
        self.identities.add(identity)

    def _held(self, dataset: str) -> "OpenAccount":
        if dataset not in self.in_use:
            raise ConfigError("it has an impossible dataset: no data set in use has this name.")
        return self.in_use[dataset]

    def _reserve(self, event: Event) -> None:
        dataset, paid = _paid_round(event)
        held = self._held(dataset)
        held.pay(paid)
        self._by_reservation[event.id] = held
        self._taken[held.opened.dataset, paid.run, paid.server_round] = paid

    def _commit(self, event: Event) -> None:
        reserved = read(_Committed, event.content, others=True).reserved
        held = self._by_reservation.get(reserved)
        if held is None:
            raise ConfigError("it has an impossible reserved: no entry of this number pays for a round.")
        paid = held.commit(reserved)
        self._taken[held.opened.dataset, paid.run, paid.server_round] = paid

    def _retire(self, event: Event) -> None:
        found = read(_Retired, event.content, others=True)
        held = self._held(found.dataset)
        del self.in_use[found.dataset]
        held.retired = found.time
        self.identities.remove(held.opened.identity)
        self.retirements += 1


@dataclass
class OpenAccount:
    """An account as it grows. opened: the account without rounds; spent: their total, merged.

    unprotected_in: the run that first trained the data set without protection; empty if there is none.
    """

    opened: Account
    retired: str | None = None
    rounds: dict[int, LedgerRound] = field(default_factory=dict)
    spent: tuple[Entry, ...] = ()
    unprotected_in: str = ""

    def pay(self, paid: LedgerRound) -> None:
        self.rounds[paid.id] = paid
        self.spent = merge((*self.spent, paid.entry))
        if not paid.entry.private:
            self.unprotected_in = self.unprotected_in or paid.run

    def commit(self, reservation: int) -> LedgerRound:
        paid = self.rounds[reservation] = replace(self.rounds[reservation], committed=True)
        return paid

    def account(self) -> Account:
        return replace(self.opened, rounds=tuple(self.rounds.values()), retired=self.retired)


def _require_known_steps(event: Event) -> None:
    """LedgerError, with the entry's number and what to do, for steps whose cost we do not know."""
    what = _UNKNOWN_KINDS.get(str(event.content.get("kind")), "")
    if steps := unknown_steps(event.content):
        what = what or f"paid for {steps}"
    if what:
        raise LedgerError(
            f"entry {event.id} of the ledger {what}, which only fl_dp 1.0 can account for. Nothing was "
            "changed or paid. Continue with fl_dp 1.0; or keep this file, and start another ledger elsewhere "
            "(ledger, or --ledger): for records in both, epsilons and deltas add up. fl-dp ledger show of "
            "fl_dp 1.0 prints those of this file."
        )


def arithmetic_of(rounds: Iterable[LedgerRound]) -> str:
    """The weakest arithmetic of the rounds."""
    return weakest(paid.arithmetic for paid in rounds)


def lineages(accounts: Iterable[Account]) -> list[list[Account]]:
    """The accounts in groups, each oldest first: all accounts of a group may hold some of the same records.

    Retiring an account ends its budget, but what its rounds revealed of its records stays known. So such a
    record has spent the composition of the whole group.
    """
    held = sorted(accounts, key=lambda account: account.id)
    groups = kin_groups([account.identity for account in held])
    return [[held[position] for position in group] for group in groups]


def _identity(event: Event) -> Identity:
    """An older fl_dp noted no source or sketch: its data sets count as whole sets of that name.

    If no unit is noted, it is the record. The `traces` that 1.0 noted are passed over.
    """
    noted = {key: value for key, value in event.content.items() if value is not None}
    return read(Identity, {"source": noted.get("dataset"), **noted}, others=True)


def _paid_round(event: Event) -> tuple[str, LedgerRound]:
    """The data set that paid, and the round."""
    unprotected = {"noise_multiplier": 0.0} if event.content["kind"] == UNPROTECTED else {}
    c = read(_Reserved, {**event.content, **unprotected}, others=True)
    entry = Entry(c.sample_rate, c.noise_multiplier, c.steps, c.shares)
    arithmetic = _known_arithmetic(c.arithmetic, event.id)
    paid = LedgerRound(event.id, c.time, c.run, c.round, entry, c.budget, False, arithmetic, c.inputs)
    return c.dataset, paid


def _known_arithmetic(noted: str, number: int) -> str:
    """The noted arithmetic. No epsilon is known of steps under a claim that was refuted."""
    if noted == _REFUTED:
        raise LedgerError(
            f"entry {number} of the ledger paid for steps under an assumption about rounding that has since "
            "been refuted, so no epsilon is known for these records (docs/privacy.md). Nothing was "
            "changed or paid. Keep this file, and start another ledger elsewhere (ledger, or --ledger), for "
            "records that are not in this one. fl-dp ledger show of fl_dp 1.0 prints what was charged."
        )
    if noted not in ARITHMETICS:
        raise LedgerError(
            f"entry {number} of the ledger was paid under arithmetic {noted!r:.40}, which this fl_dp cannot "
            "read; use a newer one."
        )
    return noted
