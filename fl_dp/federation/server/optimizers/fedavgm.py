"""FedAvgM (Hsu, Qi, Brown 2019, arXiv 1909.06335): momentum on the change of the weights."""

from collections.abc import Mapping

import numpy as np

from fl_dp.errors import ConfigError
from fl_dp.federation.server.optimizer import Arrays, ServerOptimizer
from fl_dp.federation.wire.arrays import NDArray

MOMENTUM = 0.9  # the paper's, where it does not search
_VELOCITY = "velocity of "


class FedAvgM(ServerOptimizer):
    """v = momentum v + change; weights + rate v. At momentum 0 and rate 1 it is the average itself."""

    usual_learning_rate = 1.0

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._velocities: dict[str, NDArray] = {}  # by array, float64

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        return {name: self._step(name, weights[name], target) for name, target in aggregated.items()}

    def state(self) -> Mapping[str, NDArray]:
        return {_VELOCITY + name: velocity for name, velocity in self._velocities.items()}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        if not all(key.startswith(_VELOCITY) for key in state):
            raise ConfigError(
                f"the run's state holds {sorted(state)[:3]} for FedAvgM, expected a velocity of each array; "
                "resume the run with the fl_dp that started it."
            )
        self._velocities = {key.removeprefix(_VELOCITY): velocity for key, velocity in state.items()}

    def _step(self, name: str, start: NDArray, target: NDArray) -> NDArray:
        way = target.astype(np.float64) - start.astype(np.float64)
        velocity = MOMENTUM * self._velocities.get(name, np.zeros_like(way)) + way
        self._velocities[name] = velocity
        return (start + self.learning_rate * velocity).astype(start.dtype)


SERVER_OPTIMIZER = FedAvgM
