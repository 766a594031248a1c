"""FedAdam (Reddi et al. 2021, arXiv 2003.00295, algorithm 2): Adam on the change of the weights."""

from collections.abc import Mapping

import numpy as np

from fl_dp.errors import ConfigError
from fl_dp.federation.server.optimizer import Arrays, ServerOptimizer
from fl_dp.federation.wire.arrays import NDArray

BETA_1, BETA_2, TAU = 0.9, 0.99, 1e-3  # the paper's, of its experiments
_FIRST, _SECOND = "first moment of ", "second moment of "


class FedAdam(ServerOptimizer):
    usual_learning_rate = 0.1

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._moments: dict[str, tuple[NDArray, NDArray]] = {}  # by array, float64

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        return {name: self._step(name, weights[name], target) for name, target in aggregated.items()}

    def state(self) -> Mapping[str, NDArray]:
        firsts = {_FIRST + name: first for name, (first, _) in self._moments.items()}
        return firsts | {_SECOND + name: second for name, (_, second) in self._moments.items()}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        names = [key.removeprefix(_FIRST) for key in state if key.startswith(_FIRST)]
        if state.keys() != {prefix + name for name in names for prefix in (_FIRST, _SECOND)}:
            raise ConfigError(
                f"the run's state holds {sorted(state)[:3]} for FedAdam, expected two moments of each array; "
                "resume the run with the fl_dp that started it."
            )
        self._moments = {name: (state[_FIRST + name], state[_SECOND + name]) for name in names}

    def _step(self, name: str, start: NDArray, target: NDArray) -> NDArray:
        """No correction of the moments' bias, as in the paper."""
        way = target.astype(np.float64) - start.astype(np.float64)
        zero = np.zeros_like(way)
        first, second = self._moments.get(name, (zero, zero))
        first = BETA_1 * first + (1 - BETA_1) * way
        second = self._second(second, way**2)
        self._moments[name] = first, second
        return (start + self.learning_rate * first / (np.sqrt(second) + TAU)).astype(start.dtype)

    def _second(self, second: NDArray, square: NDArray) -> NDArray:
        """The second moment, with the square of the change."""
        return BETA_2 * second + (1 - BETA_2) * square


SERVER_OPTIMIZER = FedAdam
