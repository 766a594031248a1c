"""The updates that stand become the next global weights, by post-processing alone."""

import logging
from collections.abc import Mapping

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import aggregation_of
from fl_dp.federation.server.judging import Judged
from fl_dp.federation.server.optimizer import server_optimizer_of
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, encode

logger = logging.getLogger("fl_dp")

_AGGREGATION, _OPTIMIZER = "aggregation ", "optimizer "


class Aggregating:
    """trainable: the arrays that clients send back; the others keep the server's values."""

    def __init__(self, config: RunConfig, trainable: Mapping[str, ArraySpec]) -> None:
        self._trainable = trainable
        self._aggregation = aggregation_of(config.aggregation)
        self._optimizer = server_optimizer_of(config.server_optimizer, config.server_learning_rate)

    @property
    def needs_single_updates(self) -> bool:
        """Whether clients' updates must come one by one, not added up."""
        return self._aggregation.needs_single_updates

    def aggregate(self, weights: ArrayRecord, judged: Judged) -> ArrayRecord | None:
        """The new global weights after a round; None if no update stands, or if they are not finite."""
        if not judged.updates and not judged.sums:
            return None
        before = self._optimizer.state()
        combined = self._aggregation.combine(judged.updates, judged.sums, self._trainable)
        start = {name: weights[name].numpy() for name in self._trainable}
        with np.errstate(over="ignore", invalid="ignore"):
            new = self._optimizer.step(start, combined)
        if not all(np.isfinite(array).all() for array in new.values()):
            self._optimizer.restore(before)
            logger.warning("the updates lead to weights that are not finite; the weights stay as they were")
            return None
        return ArrayRecord({**weights, **encode(new)})

    def state(self) -> dict[str, NDArray]:
        """What is remembered from round to round."""
        kept = {_AGGREGATION + name: array for name, array in self._aggregation.state().items()}
        return kept | {_OPTIMIZER + name: array for name, array in self._optimizer.state().items()}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Go on from that state; ConfigError for one that the run's aggregation and optimizer do not know."""
        unknown = [name for name in state if not name.startswith((_AGGREGATION, _OPTIMIZER))]
        if unknown:
            raise ConfigError(
                f"the run's state holds {unknown[:3]}, which nothing here remembers; resume the run with the "
                "fl_dp that started it."
            )
        self._aggregation.restore(_of(state, _AGGREGATION))
        self._optimizer.restore(_of(state, _OPTIMIZER))


def _of(state: Mapping[str, NDArray], whose: str) -> dict[str, NDArray]:
    return {name.removeprefix(whose): array for name, array in state.items() if name.startswith(whose)}
