"""The clipping bound of a client's steps: one for all, or one that follows the gradients' lengths.

Adaptive clipping (Andrew, Thakkar, McMahan, Ramaswamy 2021, arXiv 1905.03871, algorithm 1), by the step and
within one client: beside the clipped sum a step releases how many gradients are short, and moves the bound by
that. The count is one more number of the sum that is noised: the same draw of noise on the same grid covers
both, and both together are the mechanism of the plan's noise multiplier (`accounting/noise_split.py`).

What a step descends along is the noised sum in multiples of the bound, so that the learning rate does not
depend on where the bound is (De et al. 2022, arXiv 2204.13650, section 2, for a fixed one).
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
SLOPE = 0.1  # of the bound: between 1 - SLOPE and 1 + SLOPE times it, a gradient counts as partly short


class ClippingBound:
    """value: what the next step's gradients are clipped to. Of this class itself it never changes."""

    def __init__(self, plan: RoundPlan) -> None:
        self.value = plan.max_grad_norm

    def to_noise(self, clipped: ClippedSum) -> ClippedSum:
        """What the step adds noise to. clipped: the sum of its whole logical batch."""
        return clipped

    def descended(self, noisy: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What the step descends along, by parameter; called once, with what became of `to_noise`."""
        return noisy

    def kept(self) -> float | None:
        """What the client's next round goes on from; None: from the plan."""
        return None

    def go_on_from(self, kept: float) -> None:
        """Begin with what `kept` gave after the client's last round."""


class AdaptiveBound(ClippingBound):
    """One that moves so that `adaptation.quantile` of the gradients are no longer than it.

    It stays within REACH times the plan's, and a step moves it by e^rate at most.
    """

    def __init__(self, plan: RoundPlan, adaptation: Adaptation) -> None:
        super().__init__(plan)
        self._first, self._adaptation = plan.max_grad_norm, adaptation
        self._batch = plan.expected_batch_size
        self._split = split_noise(plan.noise_multiplier, plan.expected_batch_size)

    def to_noise(self, clipped: ClippedSum) -> ClippedSum:
        """With the count as one more number, and the sensitivity of both: C sqrt(1 + ratio^2)."""
        count = torch.tensor([self._per_half * 2 * shortness(clipped.norms, self.value)], dtype=torch.float64)
        sensitivity = math.hypot(clipped.sensitivity, self._per_half)
        return replace(clipped, grads={**clipped.grads, _COUNT: count}, sensitivity=sensitivity)

    def descended(self, noisy: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The sum in multiples of the bound that it was clipped to; the bound has then moved."""
        bound, count = self.value, noisy[_COUNT].item() / self._per_half / 2
        share = min(1.0, max(0.0, count / self._batch + 0.5))
        self._move(bound * math.exp(self._adaptation.rate * (self._adaptation.quantile - share)))
        return {name: noise / bound for name, noise in noisy.items() if name != _COUNT}

    def kept(self) -> float | None:
        """The bound."""
        return self.value

    def go_on_from(self, kept: float) -> None:
        """As of any bound; within the plan's reach, whatever was kept."""
        self._move(kept)

    @property
    def _per_half(self) -> float:
        """What half an example's count weighs beside the sum: with it both have noise of one deviation."""
        return self._split.ratio * self.value

    def _move(self, to: float) -> None:
        self.value = min(max(to, self._first / REACH), self._first * REACH)


def bound_of(plan: RoundPlan) -> ClippingBound:
    """What the plan asks for; ConfigError where that cannot be."""
    adaptation = adaptation_of(plan.adaptive_clipping)
    return AdaptiveBound(plan, adaptation) if adaptation else ClippingBound(plan)


def shortness(norms: Tensor, bound: float) -> float:
    """Sum over examples of 1/2 for a gradient that is short, -1/2 for a long one, in between at the bound.

    norms: (N,) lengths; one that is not finite is long. One example adds something from -1/2 to 1/2, whatever
    its length. The slope is there for rounding: a length that is off by a part e of it moves the sum by
    e / (2 SLOPE), where at a sharp bound a last bit would decide about a whole example.
    """
    lengths = norms.double() / bound
    share = ((1 + SLOPE - lengths) / (2 * SLOPE)).clamp(0, 1)
    return float((torch.where(lengths.isfinite(), share, 0.0) - 0.5).sum())
