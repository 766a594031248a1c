"""The updates that stand become the next global weights, by post-processing alone."""

from collections.abc import Mapping

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.config.flat import AUTO
from fl_dp.config.run import POISSON, RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import Update, aggregation_of, check_aggregation
from fl_dp.federation.server.bounding import Bounding
from fl_dp.federation.server.controls import Controls
from fl_dp.federation.server.judging import Judged
from fl_dp.federation.server.optimizer import server_optimizer_of
from fl_dp.federation.server.weights import capped
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, encode
from fl_dp.records import MOST_WEIGHT
from fl_dp.reporting.reports import OpenedSum
from fl_dp.reporting.wording import counted

_AGGREGATION, _OPTIMIZER, _CONTROLS = _PARTS = "aggregation ", "optimizer ", "controls "


class Aggregating:
    """shared: the parameters that clients send back; the model's other arrays keep the server's values."""

    def __init__(self, config: RunConfig, shared: Mapping[str, ArraySpec]) -> None:
        self._shared, self._config = shared, config
        self.lost = ""  # why the last round's updates were not used
        self.opened: OpenedSum | None = None  # of the last round, where its updates came as a secure sum
        self._bounding = Bounding(config, shared)
        self._controls = Controls(config, shared)
        check_aggregation(config)
        self._aggregation = aggregation_of(config.aggregation, config.malicious_clients)
        self._optimizer = server_optimizer_of(config.server_optimizer, config.server_learning_rate)

    def least_updates(self, asked: int) -> int:
        """How many updates a round needs of so many clients that were asked.

        "auto": as many as it is to have; where budgets have ended there are fewer, and all are needed.
        """
        own = self._aggregation.least_updates
        if self._config.min_updates != AUTO:
            return max(own, int(self._config.min_updates))
        if self._config.sampling == POISSON:
            return max(own, min(1, asked))
        return max(own, min(self._config.min_clients, self._config.fit_clients, asked))

    def least_asked(self, asked: int) -> int:
        """How many must be asked, of so many that could be, for a round that can have enough updates."""
        return self.least_updates(asked)

    def _needed(self, judged: Judged) -> int:
        """How many of the round's updates must stand."""
        return self.least_updates(len(judged.verdicts))

    @property
    def server_learning_rate(self) -> float:
        """Of the server's optimizer, "auto" resolved."""
        return self._optimizer.learning_rate

    @property
    def needs_single_updates(self) -> bool:
        """Whether clients' updates must come one by one, not added up."""
        return self._aggregation.needs_single_updates

    @property
    def expected(self) -> dict[str, ArraySpec]:
        """All arrays that clients send back."""
        return {**self._shared, **self._controls.specs}

    def message(self, weights: ArrayRecord) -> ArrayRecord:
        """All arrays that clients are sent: the global weights, and control variates, if there are any."""
        controls = self._controls.arrays
        return ArrayRecord({**weights, **encode(controls)}) if controls else weights

    def aggregate(self, weights: ArrayRecord, judged: Judged) -> ArrayRecord | None:
        """The new global weights after a round; None if no update stands, or if clients could not go on from
        them. `lost` then says why, unless nobody has trained.
        """
        self.lost = ""
        if not judged.updates and not judged.sums:
            return None
        least = self._needed(judged)
        if judged.standing < least:
            left = counted(judged.standing, "update")
            self.lost = f"{left} left, {least} are needed (min-updates, aggregation)"
            return None
        before = self._optimizer.state()
        start = {name: weights[name].numpy() for name in self._shared}
        combined = self._combined(weights, start, judged)
        with np.errstate(over="ignore", invalid="ignore"):
            new = self._optimizer.step(start, {name: combined[name] for name in self._shared})
        if not all((abs(array) <= MOST_WEIGHT).all() for array in new.values()):  # NaN is not either
            self._optimizer.restore(before)
            self.lost = f"the updates lead to weights beyond {MOST_WEIGHT:g}, or not finite"
            return None
        self._controls.move(combined, judged.standing)
        return ArrayRecord({**weights, **encode(new)})

    def _combined(
        self, weights: ArrayRecord, start: Mapping[str, NDArray], judged: Judged
    ) -> Mapping[str, NDArray]:
        """One array for each that is expected, of a round whose updates suffice. start: the shared ones."""
        self._bounding.hold(weights, judged)
        return self._aggregation.combine(self._capped(judged), judged.sums, self.expected)

    def _capped(self, judged: Judged) -> list[Update]:
        """The single updates, none of which counts more than `max-weight` allows among those that stand.

        Those beside sums were asked for with weights that were capped then.
        """
        if judged.sums:
            return judged.updates
        weights = capped([weight for _, weight in judged.updates], self._config.max_weight)
        return [(update, weight) for (update, _), weight in zip(judged.updates, weights, strict=True)]

    def forget_steps(self) -> None:
        """The last model is not gone on from: what led to it leads nowhere."""
        self._optimizer.restore({})

    def state(self) -> dict[str, NDArray]:
        """What is remembered from round to round."""
        kept = {_AGGREGATION + name: array for name, array in self._aggregation.state().items()}
        kept |= {_OPTIMIZER + name: array for name, array in self._optimizer.state().items()}
        return kept | {_CONTROLS + name: array for name, array in self._controls.arrays.items()}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Go on from that state; ConfigError for one that the run's aggregation and optimizer do not know."""
        unknown = [name for name in state if not name.startswith(_PARTS)]
        if unknown:
            raise ConfigError(
                f"the run's state holds {unknown[:3]}, which nothing here remembers; resume the run with the "
                "fl_dp that started it."
            )
        self._aggregation.restore(_of(state, _AGGREGATION))
        self._optimizer.restore(_of(state, _OPTIMIZER))
        self._controls.restore(_of(state, _CONTROLS))


def _of(state: Mapping[str, NDArray], whose: str) -> dict[str, NDArray]:
    return {name.removeprefix(whose): array for name, array in state.items() if name.startswith(whose)}
