"""A step towards the aggregated weights. The usual rate of 1 goes all the way: federated averaging."""

import numpy as np

from fl_dp.federation.server.optimizer import Arrays, ServerOptimizer
from fl_dp.federation.wire.arrays import NDArray


class FedAvg(ServerOptimizer):
    usual_learning_rate = 1.0

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        if self.learning_rate == 1.0:
            return dict(aggregated)  # exact, while adding the difference would round
        new = {}
        for name, target in aggregated.items():
            start = weights[name]
            change = target.astype(np.float64) - start.astype(np.float64)
            new[name] = (start + self.learning_rate * change).astype(start.dtype)
        return new


SERVER_OPTIMIZER = FedAvg
