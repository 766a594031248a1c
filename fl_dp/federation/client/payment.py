"""The one payment path of a client, for the steps of a round and for an evaluation of its test records.

    question -> Accepted -> Paid -> answer

The client's own policy accepts a question (`round.py`, `evaluation.py`). Only `pay` makes a `Paid` of it. It
pays for a list of clients that share a ledger in one transaction, which is on the disk before any work on a
record begins. Before that, records are read only to find their account. Work takes a `Paid` (`attempt`).
`settle` commits what has succeeded, and makes the answers.
What was not confirmed counts as spent: if work failed or never ended, its payment stays reserved in the
ledger and cannot be undone.

Importing this file is cheap: a simulation's training processes need nothing else of the federation.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import Reservation, ReservationRequest
from fl_dp.clean_text import one_line
from fl_dp.config.client import ClientConfig
from fl_dp.errors import (
    ENDS,
    BudgetExhaustedError,
    DataError,
    DeclinedError,
    FlDpError,
    LedgerError,
    RoundTakenError,
    TaskError,
)
from fl_dp.records import Entry, Refusal, RoundPlan

if TYPE_CHECKING:
    from fl_dp.tasks.held_out import HeldOut  # it imports torch

# A log of its own where server and clients are one process: it may quote data.
CLIENTS_LOGGER = "fl_dp.clients"
NOT_FINITE = "its update holds values that are not finite"

logger = logging.getLogger(CLIENTS_LOGGER)


@dataclass(frozen=True, slots=True)
class DataAccount:
    """A client's data in its ledger.

    dataset: their name there; public_size: their declared number of units; fingerprint: of their contents,
    which stays here. budget: the limit of all that is paid from it.
    """

    dataset: str
    public_size: int
    fingerprint: str
    budget: Budget


@dataclass(frozen=True, slots=True)
class HeldOutAccount(DataAccount):
    """The account of a client's test records. Its budget is `evaluate-epsilon`. held_out: the records."""

    held_out: "HeldOut"


@dataclass(frozen=True, slots=True)
class Client(DataAccount):
    """A client, with the account of the data that it trains on.

    task: identity of its own task, empty if it is built in. test: None if it declares no test records.
    """

    settings: ClientConfig
    task: str = ""
    test: HeldOutAccount | None = None


class Accepted(Protocol):
    """A question that a client's policy allows, and that is not paid for yet."""

    @property
    def key(self) -> str: ...
    @property
    def client(self) -> Client: ...

    @property
    def account(self) -> DataAccount: ...
    def request(self, inputs: str) -> ReservationRequest:
        """What to pay for. inputs: see `ReservationRequest`."""

    def covers(self, *digests: str) -> bytes:
        """Everything that decides the result, except the payment's bytes. digests: of what was received."""


A = TypeVar("A", bound=Accepted)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class AcceptedRound:
    key: str
    client: Client
    plan: RoundPlan

    @property
    def account(self) -> DataAccount:
        return self.client

    @property
    def sample_rate(self) -> float:
        return self.plan.sample_rate(self.client.public_size)

    @property
    def entry(self) -> Entry:
        """The round as a ledger entry, with all its steps."""
        plan = self.plan
        return Entry(self.sample_rate, plan.noise_multiplier, plan.steps, max(1, plan.shares))

    def request(self, inputs: str) -> ReservationRequest:
        client, plan = self.client, self.plan
        budget = client.budget if plan.private else None
        return ReservationRequest(
            client.dataset, plan.run, plan.server_round, self.entry, budget, inputs, plan.arithmetic
        )

    def covers(self, *digests: str) -> bytes:
        """See `Accepted`. digests: of the received arrays, and of the client's kept state, if any."""
        weights, state = (*digests, "")[:2]
        covered = (self.client.dataset, self.client.fingerprint, weights, state, str(self.plan))
        return "\0".join(covered).encode()


@dataclass(frozen=True, slots=True)
class Paid(Generic[A]):
    """What is paid for and may now be worked on."""

    accepted: A
    reservation: Reservation

    @property
    def steps(self) -> int:
        """The steps that may be taken: fewer than asked for if the budget had no room for more."""
        return self.reservation.entry.steps

    def key(self, *digests: str) -> bytes:
        """32 secret bytes, from which all draws, masks and noise come. digests: see `Accepted.covers`.

        The payment's secret bytes are hashed with everything that decides the result. So even if a ledger was
        copied, two results share no random number unless all of this is equal. If it is equal, they draw the
        same records, and their sums differ at most by rounding. If the sums differ, so does the noise.
        """
        covered = self.accepted.covers(*digests)
        return blake2b(covered, key=self.reservation.key, digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of work that was paid for.

    arrays: by name; empty if they were added to a sum of updates, or if the work failed.
    problem: why it failed, in words that may leave the client; else empty. log: only for the client's log.
    """

    arrays: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    log: str = ""


def pay(
    ledger: Ledger, accepted: Sequence[A], inputs: Callable[[A], str] = lambda one: ""
) -> tuple[list[Paid[A]], dict[str, Refusal]]:
    """Pay, on the disk, in one transaction. Returns what is paid for, and the refusals by key.

    inputs: see `ReservationRequest`. A repeated question with the same inputs gives the same result, and is
    free; with empty inputs it never is. LedgerError if the ledger cannot be written; nothing is then paid.
    """
    paid: list[Paid[A]] = []
    refusals: dict[str, Refusal] = {}
    results = ledger.reserve_all([one.request(inputs(one)) for one in accepted])
    for one, result in zip(accepted, results, strict=True):
        if isinstance(result, DeclinedError):
            refusals[one.key] = refusal_of(result)
        else:
            paid.append(Paid(one, result))
    warn_of_refusals(refusals)
    return paid, refusals


def attempt(work: Callable[[], Mapping[str, Any] | None], fatal: tuple[type[Exception], ...] = ()) -> Outcome:
    """Do the work. A failure becomes words that may leave; None means numbers that are not finite.

    Only `fatal` exceptions, and those in `ENDS`, propagate, because texts and tracebacks may quote the data.
    """
    try:
        arrays = work()
    except fatal:
        raise
    except BaseException as error:
        if isinstance(error, ENDS):
            raise
        return Outcome(problem=refusal_of(error).reason, log=traceback.format_exc())
    return Outcome(problem=NOT_FINITE) if arrays is None else Outcome(arrays)


def settle(
    ledger: Ledger,
    done: Sequence[tuple[Paid[A], Outcome]],
    answer: Callable[[Paid[A], Mapping[str, Any], tuple[Entry, ...]], Answer],
) -> dict[str, Answer | Refusal]:
    """The answers by key. Work that has succeeded is committed first, in one transaction.

    answer: makes an answer from what was paid for, the arrays, and everything that the account has spent.
    LedgerError if the ledger cannot be written; then no result may leave.
    """
    good = [(paid, outcome.arrays) for paid, outcome in done if not outcome.problem]
    ledger.commit_all(paid.reservation for paid, _ in good)
    spent = ledger.spent_all(paid.accepted.account.dataset for paid, _ in good)
    answers: dict[str, Answer | Refusal] = {
        paid.accepted.key: _failed(paid.accepted.client, outcome) for paid, outcome in done if outcome.problem
    }
    for (paid, arrays), entries in zip(good, spent, strict=True):
        answers[paid.accepted.key] = answer(paid, arrays, entries)
    return answers


def pay_and_answer(
    ledger: Ledger,
    accepted: A,
    work: Callable[[Paid[A]], Mapping[str, Any] | None],
    answer: Callable[[Paid[A], Mapping[str, Any], tuple[Entry, ...]], Answer],
    inputs: str = "",
) -> Answer | Refusal:
    """Pay, work and settle for one client. LedgerError: no result may leave."""
    paid, refusals = pay(ledger, [accepted], lambda one: inputs)
    if refusals:
        return refusals[accepted.key]
    return settle(ledger, [(paid[0], attempt(lambda: work(paid[0])))], answer)[accepted.key]


def refusal_of(error: BaseException) -> Refusal:
    """What others may learn of `error`: its text if fl_dp wrote it for strangers, else one fixed line.

    Another library's text may quote the data, and even its class may depend on them. A DataError and a
    LedgerError name files, and file names may contain patients' names. These stay in the client's log.
    """
    if isinstance(error, RoundTakenError):  # not "declined", because a declined round costs nothing
        return Refusal("failed", one_line(str(error)))
    if isinstance(error, DeclinedError):
        return Refusal("declined", one_line(str(error)), isinstance(error, BudgetExhaustedError))
    for kind, what in ((DataError, "data"), (TaskError, "task"), (LedgerError, "ledger")):
        if isinstance(error, kind):
            return Refusal("failed", f"its {what} cannot be used; its own log says why")
    if isinstance(error, FlDpError):
        return Refusal("failed", one_line(error.own_words))
    return Refusal("failed", "an unexpected error; its own log says which")


def refuse(keys: Iterable[str], error: Exception) -> dict[str, Refusal]:
    """A refusal for each key, after one `error` ended all. The error goes only to the clients' own log."""
    if isinstance(error, DeclinedError):
        logger.warning("declined: %s", error)
    else:
        logger.error("a message could not be answered", exc_info=error)
    return dict.fromkeys(keys, refusal_of(error))


def warn_of_refusals(refusals: Mapping[str, Refusal]) -> None:
    """Warn in the clients' own log, once for each reason."""
    for (status, reason), count in Counter((one.status, one.reason) for one in refusals.values()).items():
        logger.warning("%s%s: %s", status, f" by {count} clients" if count > 1 else "", reason)


def _failed(client: Client, outcome: Outcome) -> Refusal:
    logger.warning("client %s failed: %s", client.settings.client, outcome.problem)
    if outcome.log:
        logger.error("client %s:\n%s", client.settings.client, outcome.log)
    return Refusal("failed", outcome.problem)
