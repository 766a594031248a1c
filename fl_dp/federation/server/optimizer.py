"""The base classes of `optimizers.py`: the step from the old global weights to the aggregated ones."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from fl_dp.choices import SERVER_OPTIMIZERS
from fl_dp.config.flat import number_in
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import chosen_class, made, refuse_unknown
from fl_dp.federation.wire.arrays import NDArray

_LEAST_RATE, _MOST_RATE = 1e-12, 1e12
Arrays = Mapping[str, NDArray]


class ServerOptimizer(ABC):
    """One instance for a whole run. It post-processes noised updates, so whatever it does costs no privacy.

    usual_learning_rate: used if the run config names no other.
    """

    usual_learning_rate: ClassVar[float]

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    @abstractmethod
    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        """The new global weights, in the shapes and types of the old ones, `weights`."""

    def state(self) -> Arrays:
        """The arrays kept from round to round, by name; a resumed run restores them.

        A step makes new arrays and never changes these, so that `restore` can undo a failed step.
        """
        return {}

    def restore(self, state: Arrays) -> None:
        """Restore that state; ConfigError if it is not its own."""
        refuse_unknown(state, {}, f"server optimizer {type(self).__name__}")


class MomentOptimizer(ServerOptimizer):
    """An optimizer that keeps moments of the weights' changes and adds a number to each weight.

    moments: their names. The state holds each of them for each array.
    """

    moments: ClassVar[tuple[str, ...]]

    def __init__(self, learning_rate: float) -> None:
        super().__init__(learning_rate)
        self._moments: dict[str, list[NDArray]] = {}  # by array; float64

    @abstractmethod
    def update(self, change: NDArray, moments: Sequence[NDArray]) -> tuple[NDArray, list[NDArray]]:
        """What to add to an array, and its new moments. change: the aggregated array minus the old one."""

    def step(self, weights: Arrays, aggregated: Arrays) -> dict[str, NDArray]:
        new = {}
        for name, target in aggregated.items():
            start = weights[name]
            change = target.astype(np.float64) - start.astype(np.float64)
            before = self._moments.get(name) or [np.zeros_like(change) for _ in self.moments]
            added, self._moments[name] = self.update(change, before)
            new[name] = (start + added).astype(start.dtype)
        return new

    def state(self) -> Arrays:
        return {
            f"{kind} of {name}": moments[place]
            for place, kind in enumerate(self.moments)
            for name, moments in self._moments.items()
        }

    def restore(self, state: Arrays) -> None:
        names = {key.partition(" of ")[2] for key in state}
        keys = {name: [f"{kind} of {name}" for kind in self.moments] for name in names}
        if state.keys() != {key for of_array in keys.values() for key in of_array}:
            raise ConfigError(
                f"the run's state holds {sorted(state)[:3]} for {type(self).__name__}, expected "
                f"{' and '.join(self.moments) or 'nothing'} of each array; resume the run with the fl_dp "
                "that started it."
            )
        self._moments = {name: [state[key] for key in of_array] for name, of_array in keys.items()}


def server_optimizer_of(value: str) -> ServerOptimizer:
    """A new optimizer by its NAME or NAME:RATE, from the table in `optimizers.py`."""
    kind = chosen_class(SERVER_OPTIMIZERS, value, ServerOptimizer)
    usual = getattr(kind, "usual_learning_rate", None)
    if usual is None:
        raise ConfigError(
            f"server-optimizer = {value!r}: {kind.__name__} has no usual_learning_rate; give it one."
        )
    rate = SERVER_OPTIMIZERS.argument(value, "RATE", optional=True) or str(usual)
    wanted = f"{value.partition(':')[0]}:RATE, a number above 0, of at most {_MOST_RATE:g}"
    number = number_in("server-optimizer", value, rate, _LEAST_RATE, _MOST_RATE, wanted)
    optimizer: ServerOptimizer = made(kind, SERVER_OPTIMIZERS, value, number)
    return optimizer
