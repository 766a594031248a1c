"""FedAdam (Reddi et al. 2021, arXiv 2003.00295, algorithm 2): Adam on the change of the weights."""

from collections.abc import Sequence

import numpy as np

from fl_dp.federation.server.optimizer import MomentOptimizer
from fl_dp.federation.wire.arrays import NDArray

BETA_1, BETA_2, TAU = 0.9, 0.99, 1e-3  # as in the paper's experiments


class FedAdam(MomentOptimizer):
    usual_learning_rate = 0.1
    moments = ("first moment of ", "second moment of ")
    expected = "FedAdam, expected two moments of each array"

    def update(self, change: NDArray, moments: Sequence[NDArray]) -> tuple[NDArray, list[NDArray]]:
        """Without bias correction of the moments, as in the paper."""
        first = BETA_1 * moments[0] + (1 - BETA_1) * change
        second = self._second(moments[1], change**2)
        return self.learning_rate * first / (np.sqrt(second) + TAU), [first, second]

    def _second(self, second: NDArray, square: NDArray) -> NDArray:
        """The new second moment. square: of the change."""
        return BETA_2 * second + (1 - BETA_2) * square


SERVER_OPTIMIZER = FedAdam
