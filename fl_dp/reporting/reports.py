"""What is reported about a round and about a run: the formats of rounds.jsonl and summary.json.

An epsilon here is always a total: over all rounds, and over earlier runs on the same ledger.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

ClientStatus = Literal["trained", "declined", "failed", "idle"]
RunStatus = Literal["completed", "budget-exhausted", "failed"]


@dataclass(frozen=True, slots=True)
class ClientRound:
    """One client after one round.

    epsilon, steps: spent so far. sample_rate: of this run's rounds; None when the client has no part
    in them. reason: why it was declined, failed or can take no part; else empty.
    """

    epsilon: float
    steps: int
    sample_rate: float | None
    status: ClientStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """One line of rounds.jsonl.

    epsilon, delta: the federation's, the largest over its clients (their data are disjoint).
    noise_multiplier: the least that a client of this round was asked for.
    loss, accuracy: of the global model on the server's test data, mean cross-entropy and share.
    seconds: wall time, the wait for clients included.
    """

    round: int
    epsilon: float
    delta: float
    noise_multiplier: float
    clients: Mapping[str, ClientRound]
    loss: float | None
    accuracy: float | None
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ClientBudget:
    """One client at the end of a run: `epsilon` spent of `budget`, at `delta`.

    rounds: rounds of this run whose update was accepted. status, reason: of the last round.
    """

    epsilon: float
    budget: float
    delta: float
    steps: int
    rounds: int
    status: ClientStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """summary.json. `rounds` is the number of rounds run; `reason` says why it is not "completed"."""

    status: RunStatus
    rounds: int
    epsilon: float | None
    delta: float | None
    accuracy: float | None
    loss: float | None
    seconds: float
    clients: Mapping[str, ClientBudget]
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def strict_json(value: Any) -> Any:
    """`value` with every NaN and infinity replaced by None: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return value
