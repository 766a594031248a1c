"""Momentum on the change of the weights (Hsu, Qi, Brown 2019, arXiv 1909.06335)."""

import numpy as np

from fl_dp.federation.server.optimizer import Arrays, ServerOptimizer
from fl_dp.federation.wire.arrays import NDArray


class FedOwn(ServerOptimizer):
    usual_learning_rate = 1.0

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._velocity: dict[str, NDArray] = {}

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        self._velocity = {
            name: 0.9 * self._velocity.get(name, np.float64(0)) + (target - weights[name])
            for name, target in aggregated.items()
        }
        return {name: (weights[name] + v).astype(weights[name].dtype) for name, v in self._velocity.items()}

    def state(self) -> Arrays:
        return self._velocity

    def restore(self, state: Arrays) -> None:
        self._velocity = dict(state)


SERVER_OPTIMIZER = FedOwn
