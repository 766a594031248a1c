"""What a ledger's events say about every data set: its account."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.event_log import Content, Event
from fl_dp.accounting.events import merge
from fl_dp.accounting.identity import Identity
from fl_dp.records import Entry


@dataclass(frozen=True, slots=True)
class PaidRound:
    """A round that was paid for.

    id: number of the event that reserved it; time: of that event, UTC, ISO 8601. committed: whether its
    steps were taken and their result was about to leave; they are spent in either case.
    budget: the wall that it was held against; None if an older fl_dp paid, which did not note it.
    """

    id: int
    time: str
    run: str
    server_round: int
    entry: Entry
    budget: Budget | None
    committed: bool


@dataclass(frozen=True, slots=True)
class Account:
    """A data set under one name, from the event that registered it until it was retired.

    id: number of the event that registered it; public_size: its number of records, as declared then;
    rounds: in the order in which they were reserved.
    registered, retired: when; retired is None for an account in use.
    """

    id: int
    identity: Identity
    public_size: int
    registered: str
    rounds: tuple[PaidRound, ...]
    retired: str | None

    @property
    def dataset(self) -> str:
        return self.identity.dataset

    @property
    def fingerprint(self) -> str:
        return self.identity.fingerprint

    def spent(self) -> tuple[Entry, ...]:
        """All that was paid for, reserved or committed, equal mechanisms merged."""
        return merge(paid.entry for paid in self.rounds)

    def last_budget(self) -> Budget | None:
        """The wall of the last round; None while none is known."""
        return next((paid.budget for paid in reversed(self.rounds) if paid.budget), None)

    def delta(self) -> float:
        """That of the last budget, or what "auto" would be."""
        budget = self.last_budget()
        return budget.delta if budget else auto_delta(self.public_size)


def read_accounts(events: Sequence[Event]) -> list[Account]:
    """All accounts, in the order in which they were opened."""
    committed = {event.content["reserved"] for event in events if event.content["kind"] == "commit"}
    return [
        _account(event, events[event.id :], committed)
        for event in events
        if event.content["kind"] == "register"
    ]


def lineages(accounts: Iterable[Account]) -> list[list[Account]]:
    """The accounts in groups, oldest first: a record in one of a group may have been in all of it.

    Retiring an account ends its budget, not what is known about its records: what they have spent is the
    composition of a whole group.
    """
    groups: list[list[Account]] = []
    for account in accounts:
        kin = [group for group in groups if _are_kin(account, group)]
        groups = [group for group in groups if group not in kin]
        groups.append(sorted((*(one for group in kin for one in group), account), key=lambda one: one.id))
    return groups


def _are_kin(account: Account, group: Iterable[Account]) -> bool:
    return any(account.identity.may_share_records(other.identity) for other in group)


def _account(start: Event, later: Iterable[Event], committed: set[int]) -> Account:
    """The account that `start` registered; later: the events after it."""
    identity = _identity(start.content)
    rounds: list[PaidRound] = []
    retired = None
    for event in _of(identity.dataset, later):
        if event.content["kind"] == "retire":
            retired = event.content["time"]
            break
        if event.content["kind"] == "reserve":
            rounds.append(_paid_round(event, event.id in committed))
    c = start.content
    return Account(start.id, identity, c["public_size"], c["time"], tuple(rounds), retired)


def _identity(content: Content) -> Identity:
    """An older fl_dp noted no source, cut or sketch: what it entered stands for the whole of its name."""
    dataset = content["dataset"]
    source, cut, sketch = (content.get(key) for key in ("source", "cut", "sketch"))
    return Identity(dataset, content["fingerprint"], source or dataset, cut or "", sketch or "")


def _of(dataset: str, events: Iterable[Event]) -> Iterator[Event]:
    return (event for event in events if event.content["dataset"] == dataset)


def _paid_round(event: Event, committed: bool) -> PaidRound:
    c = event.content
    entry = Entry(c["sample_rate"], c["noise_multiplier"], c["steps"])
    return PaidRound(event.id, c["time"], c["run"], c["round"], entry, _budget(c), committed)


def _budget(content: Content) -> Budget | None:
    noted = content.get("budget")
    return Budget(noted["epsilon"], noted["delta"], noted["accountant"]) if noted else None
