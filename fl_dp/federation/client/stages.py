"""A round at a client, stage by stage: a client whose data are entered, a round accepted, a round paid."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.records import Entry, RoundPlan

if TYPE_CHECKING:
    from fl_dp.accounting.budget import Budget
    from fl_dp.accounting.ledger.requests import Reservation


@dataclass(frozen=True, slots=True)
class Client:
    """A client whose data are in the ledger: their name there, their declared number of records, and the
    fingerprint of their contents, which stays here. task: identity of its own, empty if it is built in."""

    settings: ClientConfig
    dataset: str
    public_size: int
    fingerprint: str
    budget: "Budget"
    task: str = ""


@dataclass(frozen=True, slots=True)
class AcceptedRound:
    """A round that the client's policy allows. key: the caller's, to know the round again."""

    key: str
    client: Client
    plan: RoundPlan

    @property
    def sample_rate(self) -> float:
        return self.plan.expected_batch_size / self.client.public_size

    @property
    def charged_rate(self) -> float:
        """As the ledger is charged: of a person with records at several members the largest of theirs."""
        return self.sample_rate if self.plan.copies == 1 else max(self.sample_rate, self.plan.most_rate)

    @property
    def entry(self) -> Entry:
        """The round as the ledger would have it, with all of its steps."""
        plan = self.plan
        return Entry(self.charged_rate, plan.noise_multiplier, plan.steps, max(1, plan.shares), plan.copies)


@dataclass(frozen=True, slots=True)
class PaidRound:
    """A round whose steps are paid for: `steps` of its plan may be taken."""

    accepted: AcceptedRound
    reservation: "Reservation"

    @property
    def steps(self) -> int:
        return self.reservation.entry.steps

    def key(self, weights: str, state: str = "") -> bytes:
        """32 secret bytes that this round's draws, masks and noise come from, and nothing else.

        weights: digest of the arrays that were received; state: of what the client has kept, if anything. The
        payment's own bytes are mixed with all that the result follows from. Where a ledger was copied, and
        two rounds have the same bytes, they share no random number unless all of these are the same. Then
        only the machine's rounding may differ, which gives other noise to the same draws.
        """
        client, plan = self.accepted.client, self.accepted.plan
        covered = "\0".join((client.dataset, client.fingerprint, weights, state, str(plan)))
        return blake2b(covered.encode(), key=self.reservation.key, digest_size=32).digest()
