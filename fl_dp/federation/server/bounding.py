"""Updates longer than an honest one can be are scaled down to that length: none is dropped for it."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.judging import Judged
from fl_dp.federation.server.norm_bound import coarsest, is_bounded, norm_bound, real_numbers
from fl_dp.federation.server.weights import capped
from fl_dp.federation.wire.arrays import ArraySpec, NDArray

logger = logging.getLogger("fl_dp")


class Bounding:
    """shared: the parameters that clients send back. What else they send, such as control variates, is not
    bounded; neither is what a simulation of our own has added up.
    """

    def __init__(self, config: RunConfig, shared: Mapping[str, ArraySpec]) -> None:
        self._config, self._shared = config, shared
        self._numbers, self._eps = real_numbers(shared), coarsest(shared)

    def hold(self, weights: ArrayRecord, judged: Judged) -> None:
        """Scale the updates down that are too long, and say so in the verdicts. weights: that were sent."""
        if not judged.owners or not is_bounded(judged.owners[0].plan):
            return
        start = {name: weights[name].numpy().astype(np.float64, copy=False) for name in self._shared}
        length = _length(start)
        bounds = self._bounds(judged, length)
        for place, (asked, (update, weight)) in enumerate(zip(judged.owners, judged.updates, strict=True)):
            verdict, most = judged.verdicts[asked.client.name], bounds[place]
            way = {name: update[name].astype(np.float64) - start[name] for name in self._shared}
            long = _length(way)
            if long <= most:
                continue
            share = most / long
            near = {
                name: (start[name] + share * way[name]).astype(spec.dtype)
                for name, spec in self._shared.items()
            }
            judged.updates[place] = {**update, **near}, weight
            judged.verdicts[asked.client.name] = replace(verdict, scaled=share)
            logger.warning(
                "client %s: an update of length %.4g is scaled down to %.4g, the longest that an honest one "
                "can be", asked.client.name, long, most,
            )  # fmt: skip

    def _bounds(self, judged: Judged, start: float) -> list[float]:
        """Of each update. They grow with the steps, which follow from sizes that nothing can check: as with
        weights, none is more than `max-weight` times the mean of the others.
        """
        bounds = [
            norm_bound(
                asked.plan,
                asked.client.profile.public_size,
                judged.verdicts[asked.client.name].steps,
                self._numbers,
                start,
                self._eps,
                float(self._config.rounds * self._config.clients * asked.mechanism.steps),
            )
            for asked in judged.owners
        ]
        return capped(bounds, self._config.max_weight) if all(map(math.isfinite, bounds)) else bounds


def _length(arrays: Mapping[str, NDArray]) -> float:
    """Of all numbers together, in float64: no update within MOST_WEIGHT overflows it."""
    return math.sqrt(sum(float(np.linalg.norm(array.reshape(-1))) ** 2 for array in arrays.values()))
