"""Which model a run keeps: the last, or the best one on the server's validation half; and when one diverges.

A model that is chosen so carries the whole run's epsilon, not its own round's: see docs/privacy.md.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from flwr.app import ArrayRecord, MetricRecord

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import NDArray, encode

DIVERGED = 3.0  # times the loss of the weights that the run began with
_KEPT = "kept "  # before the names of all that is remembered
_ARRAY, _NUMBERS = _KEPT + "array ", _KEPT + "numbers"

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class Keeping:
    """on: whether anything is chosen; else the last model is the run's, and this does nothing."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._round, self._loss, self._first = 0, math.inf, math.inf
        self._arrays = ArrayRecord()

    @property
    def best(self) -> tuple[int, ArrayRecord] | None:
        """The round of the best model so far, 0 the start, and all of it; None where nothing is chosen."""
        return (self._round, self._arrays) if len(self._arrays) else None

    def begin(self, arrays: ArrayRecord, evaluate: Evaluate | None) -> None:
        """Measure the weights that the run begins with, by which divergence is told; not those of a resumed
        one. A loss that is not finite is worse than any.
        """
        if self._on and not len(self._arrays) and evaluate:
            loss = _loss_of(evaluate(0, arrays) or MetricRecord())
            self._first = self._loss = loss if math.isfinite(loss) else math.inf
            self._arrays = arrays

    def look(self, server_round: int, arrays: ArrayRecord, metrics: MetricRecord) -> str:
        """Keep the round's model if it is the best so far; why it has diverged, or empty."""
        if not len(self._arrays) or "loss" not in metrics:
            return ""
        loss = _loss_of(metrics)
        if not math.isfinite(loss):
            return f"its loss is not finite: the model is that of round {self._round} again"
        if loss > DIVERGED * self._first:
            return (
                f"its loss {loss:.4g} is above {DIVERGED:g} times that of the start, {self._first:.4g}: the "
                f"model is that of round {self._round} again"
            )
        if loss < self._loss:
            self._round, self._loss, self._arrays = server_round, loss, arrays
        return ""

    def state(self) -> dict[str, NDArray]:
        """What a resumed run goes on from; nothing before the start."""
        if not len(self._arrays):
            return {}
        numbers = np.array([self._round, self._loss, self._first], dtype=np.float64)
        return {_NUMBERS: numbers, **{_ARRAY + name: array.numpy() for name, array in self._arrays.items()}}

    def restore(self, state: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Go on from what is its own in that state; the rest of it. ConfigError for half of its own."""
        own = {name: array for name, array in state.items() if name.startswith(_KEPT)}
        if own:
            numbers = own.pop(_NUMBERS, None)
            if numbers is None or numbers.shape != (3,):
                raise ConfigError(
                    "the run's state holds no best model; resume the run with the fl_dp that began it."
                )
            self._round, self._loss, self._first = int(numbers[0]), float(numbers[1]), float(numbers[2])
            self._arrays = encode({name.removeprefix(_ARRAY): array for name, array in own.items()})
        return {name: array for name, array in state.items() if not name.startswith(_KEPT)}


def _loss_of(metrics: MetricRecord) -> float:
    """The loss among what was measured; NaN where there is none."""
    loss = metrics.get("loss")
    return float(loss) if isinstance(loss, int | float) else math.nan
