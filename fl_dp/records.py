"""Frozen dataclasses that several floors share."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fl_dp.errors import ConfigError


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """`steps` applications of one Poisson-sampled Gaussian mechanism.

    sample_rate: probability with which each record enters a step, in (0, 1].
    noise_multiplier: standard deviation of the noise over the sensitivity, > 0.
    steps: number of steps, >= 1; an empty Poisson draw is still a step.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0.0 < self.sample_rate <= 1.0:
            raise ConfigError(f"Expected sample_rate={self.sample_rate} in (0, 1].")
        if not 0.0 < self.noise_multiplier < float("inf"):
            raise ConfigError(f"Expected noise_multiplier={self.noise_multiplier} > 0 and finite.")
        if self.steps < 1:
            raise ConfigError(f"Expected steps={self.steps} >= 1.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def total_steps(entries: Iterable[Entry]) -> int:
    """Number of steps over all entries."""
    return sum(entry.steps for entry in entries)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the server asks of one client for one round. All numbers are public.

    steps: local DP-SGD steps; expected_batch_size: expected records of one Poisson draw;
    noise_multiplier: sigma over sensitivity; max_grad_norm: the clipping bound C.
    """

    run: str
    server_round: int
    model: str
    steps: int
    expected_batch_size: int
    learning_rate: float
    momentum: float
    noise_multiplier: float
    max_grad_norm: float


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What a client tells the server before its first round: public numbers only.

    client: its name in reports; public_size: the declared number of records;
    epsilon, delta: the client's own budget; spent: its ledger's entries so far;
    accountant: the one that its epsilons come from.
    """

    client: str
    public_size: int
    epsilon: float
    delta: float
    spent: tuple[Entry, ...]
    accountant: Literal["pld", "rdp"]
