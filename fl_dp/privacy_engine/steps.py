"""Counts the steps, knows whether each of them was seen to be one Poisson draw, and what they cost."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.engine.sampling import PoissonSampler
from fl_dp.errors import AssumedSamplingWarning, ConfigError
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
            return f"{told}, each checked to be a Poisson draw"
        return f"{told}, ASSUMED that each batch was a Poisson draw: no sampler was attached to check it"


def privacy_spent(
    entries: Sequence[Entry], delta: float, accountant: str, sampling: Sampling
) -> PrivacySpent:
    """The cost of all `entries` together at `delta`; infinite if one of their steps has no noise."""
    epsilon = compute_epsilon(entries, delta, accountant)
    return PrivacySpent(epsilon, delta, total_steps(entries), sampling)


def warn_of_assumed_sampling() -> None:
    """Warn, at the place that called the engine's method."""
    warnings.warn(
        "This epsilon assumes that every batch was a Poisson draw, which was not checked. Draw batches "
        "with PoissonSampler, and pass it to attach(optimizer, sampler=sampler) before the first step.",
        AssumedSamplingWarning,
        stacklevel=3,
    )


class Steps:
    """Counts an engine's steps. An attached sampler counts its draws beside it."""

    def __init__(self, sample_size: int, sample_rate: float) -> None:
        self._sample_size, self._sample_rate = sample_size, sample_rate
        self.taken, self._unseen = 0, 0
        self._sampler: PoissonSampler | None = None
        self._has_watched = False

    @property
    def sampling(self) -> Sampling:
        """Whether every step so far was seen to be a draw of a sampler, or is assumed to be one."""
        return "seen" if self._has_watched and not self._unseen else "assumed"

    def watch(self, sampler: PoissonSampler | None) -> None:
        """Require every step from now on to be one draw of `sampler`; ConfigError if its draws differ."""
        if sampler is None:
            return
        if sampler.num_records != self._sample_size:
            raise ConfigError(
                f"The sampler draws from {sampler.num_records} records, but the engine has "
                f"sample_size={self._sample_size}; give both the same number."
            )
        if sampler.sample_rate != self._sample_rate:
            raise ConfigError(
                f"The sampler draws at rate {sampler.sample_rate}, but the engine accounts for steps at "
                f"rate {self._sample_rate}; give both the same batch size and data set size."
            )
        sampler.register()
        self._sampler, self._has_watched = sampler, True

    def leave(self) -> None:
        """Release the sampler."""
        if self._sampler is not None:
            self._sampler.release()
        self._sampler = None

    def check_drawn(self) -> None:
        """ConfigError if a sampler is watched and none of its draws waits for a step."""
        if self._sampler is not None:
            self._sampler.check_drawn()

    def take(self, examples: int) -> None:
        """Count one step of `examples` losses; ConfigError, and no step, unless these are the open draw, and
        the engine knows the steps that the sampler has behind it.
        """
        if self._sampler is None:
            self._unseen += 1
        else:
            self._check_continued(self._sampler.steps_done)
            self._sampler.step_taken(examples)
        self.taken += 1

    def _check_continued(self, behind: int) -> None:
        if behind > self.taken:
            raise ConfigError(
                f"The sampler has {behind} steps of this pass behind it, of which the engine has counted "
                f"{self.taken}: epsilon would be too small. Load the engine's state_dict(), too."
            )

    def state_dict(self) -> dict[str, int]:
        """For `load_state_dict`."""
        return {"steps": self.taken, "steps_unseen": self._unseen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue counting from `state`."""
        self.taken, self._unseen = state["steps"], state["steps_unseen"]
