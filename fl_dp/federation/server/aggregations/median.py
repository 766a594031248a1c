"""The median of the updates, number by number (Yin et al. 2018, arXiv 1803.01498).

No single client moves it far. Every client counts once, whatever its weight.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.server.aggregation import Aggregation, Update, refuse_sums
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class Median(Aggregation):
    needs_single_updates = True

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        refuse_sums(sums, "median")
        return {
            name: np.median([update[name] for update, _ in updates], axis=0).astype(spec.dtype)
            for name, spec in specs.items()
        }


AGGREGATION = Median
