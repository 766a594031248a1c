"""Frozen dataclasses that several floors share."""

from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, field
from typing import Any, Literal

from fl_dp.errors import ConfigError


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """`steps` applications of one Poisson-sampled Gaussian mechanism.

    sample_rate: probability with which each record enters a step, in (0, 1].
    noise_multiplier: standard deviation of the noise over the sensitivity; 0 for unprotected steps, whose
    epsilon is infinite.
    steps: number of steps, >= 1; an empty Poisson draw is still a step.
    """

    sample_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0.0 < self.sample_rate <= 1.0:
            raise ConfigError(f"Expected sample_rate={self.sample_rate} in (0, 1].")
        if not 0.0 <= self.noise_multiplier < float("inf"):
            raise ConfigError(f"Expected noise_multiplier={self.noise_multiplier} >= 0 and finite.")
        if self.steps < 1:
            raise ConfigError(f"Expected steps={self.steps} >= 1.")

    @property
    def private(self) -> bool:
        """Whether the steps were protected at all."""
        return self.noise_multiplier > 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


WHY_IT_MAY_LEAVE = "why it may leave"


def leaves_because(reason: str, default: Any = MISSING) -> Any:
    """A dataclass field of something that leaves a client, with the reason why it may.

    Every number that leaves is such a field of `ClientProfile`, `LocalUpdate` or `Refusal`. Messages are
    built from these alone, and docs/privacy.md lists them.
    """
    return field(default=default, metadata={WHY_IT_MAY_LEAVE: reason})


def total_steps(entries: Iterable[Entry]) -> int:
    """Number of steps over all entries."""
    return sum(entry.steps for entry in entries)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the server asks of one client for one round. All numbers are public.

    steps: local DP-SGD steps; expected_batch_size: expected records of one Poisson draw;
    noise_multiplier: sigma over sensitivity; max_grad_norm: the clipping bound C.
    private: False asks for SGD WITHOUT ANY PROTECTION, in batches of `expected_batch_size`. noise_multiplier
    is then 0, and max_grad_norm is not used.
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
    private: bool = True


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What a client sends to the server before its first round: public numbers only.

    client: its name in reports; public_size: the declared number of records;
    epsilon, delta: the client's own budget; spent: its ledger's entries so far;
    accountant: the one that its epsilons come from; min_noise_multiplier: the least that it accepts;
    vary_mechanism: whether it lets sample rate and noise change after its data's first round;
    retired: how many accounts were retired in its ledger, whose spending no longer counts;
    allow_unprotected: whether it takes part in runs without privacy.
    """

    client: str = leaves_because("its operator's choice")
    public_size: int = leaves_because("declared public by its operator")
    epsilon: float = leaves_because("its operator's choice")
    delta: float = leaves_because("its operator's choice")
    spent: tuple[Entry, ...] = leaves_because("from plans, which servers chose, and from public numbers")
    accountant: Literal["pld", "rdp"] = leaves_because("its operator's choice")
    min_noise_multiplier: float = leaves_because("its operator's choice", default=0.0)
    vary_mechanism: bool = leaves_because("its operator's choice", default=False)
    retired: int = leaves_because("its operator's acts", default=0)
    allow_unprotected: bool = leaves_because("its operator's choice", default=False)
