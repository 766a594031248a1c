"""The clipping bound of a client's steps: fixed, or one that follows the gradients' lengths.

Adaptive clipping (Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv 1905.03871, algorithm 1), here for each
step and within one client: beside the clipped sum, a step releases how many gradients are short, and adjusts
the bound by that. The count is one more number of the noised sum: the same draw of noise on the same grid
covers both, and together they are the mechanism of the plan's noise multiplier (`accounting/noise_split.py`).

A step descends along the noised sum in multiples of the bound, so that the learning rate does not depend on
the bound (De et al. 2022, arXiv 2204.13650, section 2, for a fixed one).
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fl_dp.accounting.noise_split import split_noise
from fl_dp.config.adaptive_clipping import REACH, Adaptation, adaptation_of
from fl_dp.engine.clipping import ClippedSum
from fl_dp.records import RoundPlan

_COUNT = "count."  # no parameter's name ends with a point
SLOPE = 0.1  # of the bound: a gradient between 1 - SLOPE and 1 + SLOPE times the bound counts as partly short


class ClippingBound:
    """value: what the next step's gradients are clipped to. In this class it never changes."""

    def __init__(self, plan: RoundPlan) -> None:
        self.value = plan.max_grad_norm

    def to_noise(self, clipped: ClippedSum) -> ClippedSum:
        """The sum to which the step adds noise. clipped: the sum of its whole logical batch."""
        return clipped

    def descended(self, noisy: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the step descends along, by parameter. Call it once, with the noised `to_noise`."""
        return noisy

    def kept(self) -> float | None:
        """What the client's next round continues from; None: from the plan."""
        return None

    def go_on_from(self, kept: float) -> None:
        """Continue from what `kept` gave after the client's last round."""


class AdaptiveBound(ClippingBound):
    """A bound that moves until a share `adaptation.quantile` of the gradients are no longer than it.

    It stays within a factor REACH of the plan's bound, and a step changes it by a factor of e^rate at most.
    """

    def __init__(self, plan: RoundPlan, adaptation: Adaptation) -> None:
        super().__init__(plan)
        self._first, self._adaptation = plan.max_grad_norm, adaptation
        self._batch = plan.expected_batch_size
        self._split = split_noise(plan.noise_multiplier, plan.expected_batch_size)

    def to_noise(self, clipped: ClippedSum) -> ClippedSum:
        """The sum with the count as one more number; the sensitivity of both is C sqrt(1 + ratio^2)."""
        count = (self._per_half * 2 * shortness(clipped.norms, self.value)).view(1)
        sensitivity = math.hypot(clipped.sensitivity, self._per_half)
        return replace(clipped, grads={**clipped.grads, _COUNT: count}, sensitivity=sensitivity)

    def descended(self, noisy: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The sum in multiples of the bound to which it was clipped. This call then moves the bound."""
        bound, count = self.value, _read(noisy[_COUNT]) / self._per_half / 2
        share = min(1.0, max(0.0, count / self._batch + 0.5))
        self._move(bound * math.exp(self._adaptation.rate * (self._adaptation.quantile - share)))
        return {name: noise / bound for name, noise in noisy.items() if name != _COUNT}

    def kept(self) -> float | None:
        """The bound."""
        return self.value

    def go_on_from(self, kept: float) -> None:
        """As in the base class; a kept value is limited to the plan's reach."""
        self._move(kept)

    @property
    def _per_half(self) -> float:
        """The weight of half an example in the count; it gives count and sum noise of the same deviation."""
        return self._split.ratio * self.value

    def _move(self, to: float) -> None:
        self.value = min(max(to, self._first / REACH), self._first * REACH)


def bound_of(plan: RoundPlan) -> ClippingBound:
    """The bound that the plan asks for; ConfigError if that is impossible."""
    adaptation = adaptation_of(plan.adaptive_clipping)
    return AdaptiveBound(plan, adaptation) if adaptation else ClippingBound(plan)


def _read(count: Tensor) -> float:
    """The noised count. The host waits for a GPU here, because the next step's grid depends on the count."""
    return float(count.item())


def shortness(norms: Tensor, bound: float) -> Tensor:
    """() sum over examples of 1/2 for a short gradient, -1/2 for a long one, and in between near the bound.

    norms: (N,) lengths; one that is not finite counts as long. One example adds something from -1/2 to 1/2,
    whatever its length. The slope is there because of rounding: a relative error e of a length moves the sum
    by e / (2 SLOPE), whereas at a sharp bound a last bit would decide about a whole example.
    """
    lengths = norms.double() / bound
    share = ((1 + SLOPE - lengths) / (2 * SLOPE)).clamp(0, 1)
    return (torch.where(lengths.isfinite(), share, 0.0) - 0.5).sum()
