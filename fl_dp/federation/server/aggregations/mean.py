"""The weighted mean of federated averaging (McMahan et al. 2017, arXiv 1602.05629), with public weights."""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.server.aggregation import Aggregation, Update
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class Mean(Aggregation):
    """Adds up in float64, so that order and partial sums change at most the last bit of the result."""

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        all_weight = sum(weight for _, weight in updates) + sum(part.weight for part in sums)
        means = {}
        for name, spec in specs.items():
            total = np.zeros(spec.shape, dtype=np.float64)
            for update, weight in updates:
                total += weight * update[name].astype(np.float64)
            for part in sums:
                total += part.arrays[name]
            total /= all_weight
            means[name] = total.astype(spec.dtype)
        return means


AGGREGATION = Mean
