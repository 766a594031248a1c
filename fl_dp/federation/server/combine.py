"""Turns a round's valid updates into the next global weights, by post-processing only.

Updates that are too long are scaled down. The aggregation combines all, and the server's optimizer takes a
step towards the result.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import POISSON
from fl_dp.errors import ConfigError
from fl_dp.federation.server.aggregation import aggregation_of, check_aggregation
from fl_dp.federation.server.ask import capped
from fl_dp.federation.server.norm_bound import coarsest, is_bounded, length_of, norm_bound, real_numbers
from fl_dp.federation.server.optimizer import server_optimizer_of
from fl_dp.federation.server.verify import RoundResult
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, below, encode
from fl_dp.records import MOST_WEIGHT
from fl_dp.reporting.reports import OpenedSum
from fl_dp.reporting.wording import counted

logger = logging.getLogger("fl_dp")

_AGGREGATION, _OPTIMIZER = _PARTS = "aggregation ", "optimizer "


class Aggregator:
    """Aggregates a round's updates.

    shared: the parameters that clients send back; the model's other arrays keep the server's values.
    """

    def __init__(self, config: RunConfig, shared: Mapping[str, ArraySpec]) -> None:
        self._shared, self._config = shared, config
        self.lost = ""  # why the last round's updates were not used
        self.opened: OpenedSum | None = None  # the last round's, if its updates came as a secure sum
        check_aggregation(config)
        self._aggregation = aggregation_of(config.aggregation)
        self._optimizer = server_optimizer_of(config.server_optimizer)

    def least_updates(self, asked: int) -> int:
        """How many updates a round needs if so many clients were asked.

        "auto": as many as planned; all, if fewer were asked because budgets have ended.
        """
        own = self._aggregation.least_updates
        if self._config.min_updates != AUTO:
            return max(own, int(self._config.min_updates))
        if self._config.sampling == POISSON:
            return max(own, min(1, asked))
        return max(own, min(self._config.min_clients, self._config.fit_clients, asked))

    def least_asked(self, asked: int) -> int:
        """How many clients must be asked, if so many could be, to get enough updates."""
        return self.least_updates(asked)

    def _needed(self, result: RoundResult) -> int:
        """How many of the round's updates must be valid."""
        return self.least_updates(len(result.verdicts))

    @property
    def needs_single_updates(self) -> bool:
        """Whether clients' updates must arrive one by one, not added up."""
        return self._aggregation.needs_single_updates

    @property
    def expected(self) -> Mapping[str, ArraySpec]:
        return self._shared

    def aggregate(self, weights: ArrayRecord, result: RoundResult) -> ArrayRecord | None:
        """The new global weights after a round; None if too few updates are valid, or the result is unusable.

        `lost` then says why, unless nobody has trained.
        """
        self.lost = ""
        if not result.updates and not result.sums:
            return None
        least = self._needed(result)
        if result.standing < least:
            valid = counted(result.standing, "valid update")
            self.lost = f"{valid}, {least} needed (min-updates, aggregation)"
            return None
        before = self._optimizer.state()
        start = {name: weights[name].numpy() for name in self._shared}
        combined = self._combined(start, result)
        with np.errstate(over="ignore", invalid="ignore"):
            new = self._optimizer.step(start, combined)
        if not all((abs(array) <= MOST_WEIGHT).all() for array in new.values()):  # False for NaN, too
            self._optimizer.restore(before)
            self.lost = f"the updates lead to weights beyond {MOST_WEIGHT:g}, or not finite"
            return None
        return ArrayRecord({**weights, **encode(new)})

    def _combined(self, start: Mapping[str, NDArray], result: RoundResult) -> Mapping[str, NDArray]:
        """One combined array for each that is expected; there are enough updates. start: the shared arrays.

        No single update counts more than `capped` allows among the valid ones. In sums the weights were
        capped when the updates were requested.
        """
        self._scale_down(start, result)
        updates = result.updates
        if not result.sums:
            weights = capped([weight for _, weight in updates])
            updates = [(update, weight) for (update, _), weight in zip(updates, weights, strict=True)]
        return self._aggregation.combine(updates, result.sums, self.expected)

    def _scale_down(self, sent: Mapping[str, NDArray], result: RoundResult) -> None:
        """Scale down each update that is longer than an honest one can be, and note it in its verdict.

        No update is dropped for its length. Sums from our own simulation are not bounded.
        """
        if not result.owners or not is_bounded(result.owners[0].plan):
            return
        start = {name: array.astype(np.float64, copy=False) for name, array in sent.items()}
        bounds = self._bounds(result, length_of(start))
        for place, (asked, (update, weight)) in enumerate(zip(result.owners, result.updates, strict=True)):
            way = {name: update[name].astype(np.float64) - start[name] for name in self._shared}
            long, most = length_of(way), bounds[place]
            if long <= most:
                continue
            share, name = most / long, asked.client.name
            near = {
                key: (start[key] + share * way[key]).astype(spec.dtype) for key, spec in self._shared.items()
            }
            result.updates[place] = near, weight
            result.verdicts[name] = replace(result.verdicts[name], scaled=share)
            logger.warning(
                "client %s: an update of length %.4g is scaled down to %.4g, the most that an honest one has",
                name,
                long,
                most,
            )

    def _bounds(self, result: RoundResult, start: float) -> list[float]:
        """The greatest length of each update. start: length of the weights.

        A bound grows with a client's steps, which follow from its declared size. Nobody can check that size,
        so no bound is more than MOST times the mean of the others, as with weights.
        """
        bounds = [
            norm_bound(
                asked.plan,
                asked.client.profile.public_size,
                result.verdicts[asked.client.name].steps,
                real_numbers(self._shared),
                start,
                coarsest(self._shared),
                float(self._config.rounds * self._config.clients * asked.mechanism.steps),
            )
            for asked in result.owners
        ]
        return capped(bounds) if all(map(math.isfinite, bounds)) else bounds

    def forget_steps(self) -> None:
        """Reset the server optimizer's memory, when a run rolls back to an earlier model."""
        self._optimizer.restore({})

    def state(self) -> dict[str, NDArray]:
        kept = {_AGGREGATION + name: array for name, array in self._aggregation.state().items()}
        return kept | {_OPTIMIZER + name: array for name, array in self._optimizer.state().items()}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Restore that state; ConfigError if the run's aggregation and optimizer do not know it."""
        unknown = [name for name in state if not name.startswith(_PARTS)]
        if unknown:
            raise ConfigError(
                f"the run's state holds {unknown[:3]}, which this fl_dp does not know; resume the run with "
                "the fl_dp that started it."
            )
        self._aggregation.restore(below(_AGGREGATION, state))
        self._optimizer.restore(below(_OPTIMIZER, state))
