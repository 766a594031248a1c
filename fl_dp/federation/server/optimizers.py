"""What the server does with the aggregated updates: the optimizers, each a row of the table at the end.

A row is a subclass of `ServerOptimizer` (optimizer.py).
"""

from collections.abc import Sequence

import numpy as np

from fl_dp.federation.server.optimizer import Arrays, MomentOptimizer
from fl_dp.federation.wire.arrays import NDArray

MOMENTUM = 0.9  # of FedAvgM: the paper's value where it does not search
BETA_1, BETA_2, TAU = 0.9, 0.99, 1e-3  # of FedAdam, as in the paper's experiments


class FedAvg(MomentOptimizer):
    """A step towards the aggregated weights. The usual rate of 1 goes all the way: federated averaging."""

    usual_learning_rate = 1.0
    moments = ()

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        if self.learning_rate == 1.0:
            return dict(aggregated)  # exact, while adding the difference would round
        return super().step(weights, aggregated)

    def update(self, change: NDArray, moments: Sequence[NDArray]) -> tuple[NDArray, list[NDArray]]:
        return self.learning_rate * change, []


class FedAvgM(MomentOptimizer):
    """Hsu, Qi, Brown 2019, arXiv 1909.06335: momentum on the change of the weights.

    v = momentum v + change; weights + rate v. With momentum 0 and rate 1 this is the average itself.
    """

    usual_learning_rate = 1.0
    moments = ("velocity",)

    def update(self, change: NDArray, moments: Sequence[NDArray]) -> tuple[NDArray, list[NDArray]]:
        velocity = MOMENTUM * moments[0] + change
        return self.learning_rate * velocity, [velocity]


class FedAdam(MomentOptimizer):
    """Reddi et al. 2021, arXiv 2003.00295, algorithm 2: Adam on the change of the weights."""

    usual_learning_rate = 0.1
    moments = ("first moment", "second moment")

    def update(self, change: NDArray, moments: Sequence[NDArray]) -> tuple[NDArray, list[NDArray]]:
        """Without bias correction of the moments, as in the paper."""
        first = BETA_1 * moments[0] + (1 - BETA_1) * change
        second = self._second(moments[1], change**2)
        return self.learning_rate * first / (np.sqrt(second) + TAU), [first, second]

    def _second(self, second: NDArray, square: NDArray) -> NDArray:
        """The new second moment. square: of the change."""
        return BETA_2 * second + (1 - BETA_2) * square


class FedYogi(FedAdam):
    """Reddi et al. 2021, arXiv 2003.00295, algorithm 2: its second moment forgets slowly.

    When changes become small, Adam's second moment decays by a constant factor each round, Yogi's by an
    amount that depends on the change.
    """

    def _second(self, second: NDArray, square: NDArray) -> NDArray:
        moved: NDArray = second - (1 - BETA_2) * square * np.sign(second - square)
        return moved


class FedAdagrad(FedAdam):
    """Reddi et al. 2021, arXiv 2003.00295, algorithm 2: its second moment adds all squares up."""

    def _second(self, second: NDArray, square: NDArray) -> NDArray:
        return second + square


CHOICES = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
}
