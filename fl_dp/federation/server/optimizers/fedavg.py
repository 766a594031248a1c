"""A step towards the aggregated weights; at the usual rate of 1 all the way: federated averaging."""

import numpy as np

from fl_dp.federation.server.optimizer import Arrays, ServerOptimizer
from fl_dp.federation.wire.arrays import NDArray


class FedAvg(ServerOptimizer):
    usual_learning_rate = 1.0

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        if self.learning_rate == 1.0:
            return dict(aggregated)  # exactly, where adding the difference would round
        return {name: self._towards(weights[name], target) for name, target in aggregated.items()}

    def _towards(self, start: NDArray, target: NDArray) -> NDArray:
        way = target.astype(np.float64) - start.astype(np.float64)
        return (start + self.learning_rate * way).astype(start.dtype)


SERVER_OPTIMIZER = FedAvg
