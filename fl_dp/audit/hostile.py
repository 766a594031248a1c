"""The strongest observer: a server that knows all other records, chooses the weights, and sees every step.

It sends the same weights for every step. Each time it receives the noisy sum of the clipped gradients
of those canaries that were drawn, and of nothing else.
"""

import numpy as np
from numpy.typing import NDArray

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit.canaries import Arrays, GradientCanaries
from fl_dp.config.data import DataSettings
from fl_dp.records import RoundPlan

_RATE = 1000.0  # the learning rate over the batch size: a step then moves weights far more than rounding does


def hostile_learning_rate(expected_batch_size: int) -> float:
    """A rate so high that the sum can be read from a step in spite of the weights' rounding."""
    return _RATE * expected_batch_size


class WatchedGradients(GradientCanaries):
    """Gradient canaries whose every step is watched: scores are exact log-likelihood ratios.

    In one step, canary i's weight moves by noise of deviation s C and, if the canary is included, with
    probability q by C more. `StepLoss` is the logarithm of the ratio of both densities; it adds up over
    steps.
    """

    def __init__(
        self, count: int, public_size: int, plan: RoundPlan, unit: DataSettings | None = None
    ) -> None:
        super().__init__(count, public_size, plan.max_grad_norm, unit)
        self._plan = plan

    def scores(self, before: Arrays, after: Arrays) -> NDArray[np.float64]:
        unit = self._plan.learning_rate / self._plan.expected_batch_size * self._plan.max_grad_norm
        step = StepLoss(self._plan.expected_batch_size / self.public_size, self._plan.noise_multiplier)
        return step.loss(super().scores(before, after) / unit)
