"""Multi-Krum (Blanchard et al. 2017, arXiv 1703.02757): the mean of the n - f updates that Krum takes first.

As in Flower, so many; noise is averaged over them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.server.aggregation import Update, in_double, refuse_sums
from fl_dp.federation.server.aggregations.krum import Krum, nearest
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class MultiKrum(Krum):
    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        refuse_sums(sums, "Multi-Krum choice")
        taken = nearest(updates, specs, self.malicious, len(updates) - self.malicious)
        return {
            name: np.mean([in_double(updates[i][0][name]) for i in taken], axis=0).astype(spec.dtype)
            for name, spec in specs.items()
        }


AGGREGATION = MultiKrum
