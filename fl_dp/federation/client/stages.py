"""The stages of a round at a client: a client with registered data, an accepted round, a paid round."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from fl_dp.config.client import ClientConfig
from fl_dp.records import Entry, RoundPlan

if TYPE_CHECKING:
    from fl_dp.accounting.budget import Budget
    from fl_dp.accounting.ledger.requests import Reservation
    from fl_dp.tasks.held_out import HeldOut


@dataclass(frozen=True, slots=True)
class HeldOutAccount:
    """A client's test records in the ledger. dataset, public_size, fingerprint: as of a Client.

    budget: of all their evaluations, see `evaluate-epsilon`. held_out: the records.
    """

    dataset: str
    public_size: int
    fingerprint: str
    budget: "Budget"
    held_out: "HeldOut"


@dataclass(frozen=True, slots=True)
class Client:
    """A client whose data are in the ledger.

    dataset: their name there; public_size: their declared number of units; fingerprint: of their contents,
    which stays here. task: identity of its own task, empty if it is built in. test: None if it declares no
    test records.
    """

    settings: ClientConfig
    dataset: str
    public_size: int
    fingerprint: str
    budget: "Budget"
    task: str = ""
    test: HeldOutAccount | None = None


@dataclass(frozen=True, slots=True)
class AcceptedRound:
    """A round that the client's policy allows. key: by which the caller recognises the round."""

    key: str
    client: Client
    plan: RoundPlan

    @property
    def sample_rate(self) -> float:
        return self.plan.sample_rate(self.client.public_size)

    @property
    def entry(self) -> Entry:
        """The round as a ledger entry, with all its steps."""
        plan = self.plan
        return Entry(self.sample_rate, plan.noise_multiplier, plan.steps, max(1, plan.shares))


@dataclass(frozen=True, slots=True)
class PaidRound:
    """A round whose steps are paid for: `steps` of its plan may be taken."""

    accepted: AcceptedRound
    reservation: "Reservation"

    @property
    def steps(self) -> int:
        return self.reservation.entry.steps

    def key(self, weights: str, state: str = "") -> bytes:
        """32 secret bytes from which this round's draws, masks and noise come, and nothing else.

        weights: digest of the received arrays; state: digest of the client's kept state, if any.
        The payment's secret bytes are hashed with all that decides the result. So even if a ledger was
        copied, two rounds share no random number unless all of this is equal. Then they draw the same
        records, and their sums differ at most by rounding; if they do, so does the noise.
        """
        client, plan = self.accepted.client, self.accepted.plan
        covered = "\0".join((client.dataset, client.fingerprint, weights, state, str(plan)))
        return blake2b(covered.encode(), key=self.reservation.key, digest_size=32).digest()
