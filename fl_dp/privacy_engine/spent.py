"""What a number of private steps costs, and what this assumes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.errors import AssumedSamplingWarning
from fl_dp.records import STEADY_ROWS, Entry, total_steps

# Whether every step was seen to be one draw of a `PoissonSampler`, or is only assumed to be.
Sampling = Literal["seen", "assumed"]


@dataclass(frozen=True, slots=True)
class PrivacySpent:
    """The cost of a number of steps; epsilon is infinite for steps without noise.

    sampling: "seen" if a sampler was attached and every step so far was one of its draws. "assumed" if
    nothing is known of where batches came from; if they were not Poisson draws, epsilon is too small.
    """

    epsilon: float
    delta: float
    steps: int
    sampling: Sampling

    def __str__(self) -> str:
        told = (
            f"epsilon {self.epsilon:.6g} at delta {self.delta:g} after {self.steps} steps, "
            f"arithmetic {STEADY_ROWS}"
        )
        if self.sampling == "seen":
            return f"{told}, each of them seen to be a Poisson draw"
        return f"{told}, ASSUMED that each batch was a Poisson draw: no sampler was attached to see it"


def privacy_spent(
    entries: Sequence[Entry], delta: float, accountant: str, sampling: Sampling
) -> PrivacySpent:
    """The cost of all `entries` together at `delta`; infinite if one of their steps has no noise."""
    epsilon = compute_epsilon(entries, delta, accountant)
    return PrivacySpent(epsilon, delta, total_steps(entries), sampling)


def warn_of_assumed_sampling() -> None:
    """Warn, at the place that called the engine's method."""
    warnings.warn(
        "This epsilon assumes that every batch was a Poisson draw, which nothing has seen. Draw batches with "
        "PoissonSampler, and give it to attach(optimizer, sampler=sampler) before the first step.",
        AssumedSamplingWarning,
        stacklevel=3,
    )
