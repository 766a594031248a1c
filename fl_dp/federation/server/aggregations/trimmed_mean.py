"""The mean of each number without its largest and least values (Yin et al. 2018, arXiv 1803.01498).

As many values are dropped at either end as clients are assumed to be malicious. Uses Flower's `trim_mean`.
Every client counts once, whatever its weight.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from flwr.serverapp.strategy.fedtrimmedavg import trim_mean

from fl_dp.federation.server.aggregation import MALICIOUS, Aggregation, Update, in_double, refuse_sums
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class TrimmedMean(Aggregation):
    needs_single_updates = True
    argument = MALICIOUS

    @property
    def least_updates(self) -> int:
        return 2 * self.malicious + 1  # so that one value is left

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        refuse_sums(sums, "trimmed mean")
        share = (self.malicious + 0.25) / len(updates)  # trim_mean rounds share * n down
        return {
            name: trim_mean(np.stack([in_double(update[name]) for update, _ in updates]), share).astype(
                spec.dtype
            )
            for name, spec in specs.items()
        }


AGGREGATION = TrimmedMean
