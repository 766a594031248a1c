"""Which model a run keeps: the last, or the best one on the server's validation half; and when one diverges.

A model that is chosen so carries the whole run's epsilon, not its own round's: see docs/privacy.md.
"""

import math
from collections.abc import Mapping

import numpy as np
from flwr.app import ArrayRecord, MetricRecord

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import NDArray, encode

DIVERGED = 3.0  # times the loss of the weights that the run began with
_ARRAY, _NUMBERS = "array ", "numbers"


def loss_of(metrics: MetricRecord) -> float:
    """The loss among what was measured; NaN where there is none."""
    loss = metrics.get("loss")
    return float(loss) if isinstance(loss, int | float) else math.nan


class Keeping:
    """round: that the best model is of, 0 the start; loss: its own. arrays: all of it."""

    def __init__(self) -> None:
        self.round, self.loss, self._first = 0, math.inf, math.inf
        self.arrays = ArrayRecord()

    @property
    def has_begun(self) -> bool:
        """Whether the start is known."""
        return len(self.arrays) > 0

    def begin(self, arrays: ArrayRecord, loss: float) -> None:
        """Know the weights that the run begins with. A loss that is not finite is worse than any."""
        self._first = self.loss = loss if math.isfinite(loss) else math.inf
        self.arrays = arrays

    def look(self, server_round: int, arrays: ArrayRecord, loss: float) -> str:
        """Keep the round's model if it is the best so far; why it has diverged, or empty."""
        if not math.isfinite(loss):
            return f"its loss is not finite: the model is that of round {self.round} again"
        if loss > DIVERGED * self._first:
            return (
                f"its loss {loss:.4g} is above {DIVERGED:g} times that of the start, {self._first:.4g}: the "
                f"model is that of round {self.round} again"
            )
        if loss < self.loss:
            self.round, self.loss, self.arrays = server_round, loss, arrays
        return ""

    def state(self) -> dict[str, NDArray]:
        """What a resumed run goes on from; nothing before the start."""
        if not self.has_begun:
            return {}
        numbers = np.array([self.round, self.loss, self._first], dtype=np.float64)
        return {_NUMBERS: numbers, **{_ARRAY + name: array.numpy() for name, array in self.arrays.items()}}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Go on from that state; ConfigError for one that is none of its own."""
        if not state:
            return
        numbers = state.get(_NUMBERS)
        if numbers is None or numbers.shape != (3,):
            raise ConfigError(
                "the run's state holds no best model; resume the run with the fl_dp that began it."
            )
        self.round, self.loss, self._first = int(numbers[0]), float(numbers[1]), float(numbers[2])
        named = {name: array for name, array in state.items() if name.startswith(_ARRAY)}
        self.arrays = encode({name.removeprefix(_ARRAY): array for name, array in named.items()})
