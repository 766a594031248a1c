"""FedAvgM (Hsu, Qi, Brown 2019, arXiv 1909.06335): momentum on the change of the weights."""

from collections.abc import Sequence

from fl_dp.federation.server.optimizer import MomentOptimizer
from fl_dp.federation.wire.arrays import NDArray

MOMENTUM = 0.9  # the paper's value where it does not search


class FedAvgM(MomentOptimizer):
    """v = momentum v + change; weights + rate v. With momentum 0 and rate 1 this is the average itself."""

    usual_learning_rate = 1.0
    moments = ("velocity of ",)
    expected = "FedAvgM, expected a velocity of each array"

    def update(self, change: NDArray, moments: Sequence[NDArray]) -> tuple[NDArray, list[NDArray]]:
        velocity = MOMENTUM * moments[0] + change
        return self.learning_rate * velocity, [velocity]


SERVER_OPTIMIZER = FedAvgM
