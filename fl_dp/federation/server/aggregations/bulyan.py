"""Bulyan (El Mhamdi, Guerraoui, Rouault 2018, arXiv 1802.07927): Krum, again and again, then a trimmed mean.

Krum takes an update, and then one of those that are left, until n - 2f are taken. The new number is the mean
of the n - 4f of theirs that are nearest to their median. So a hostile update that Krum takes, because it is
near in all numbers but one, cannot use that one.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.server.aggregation import Update, in_double, refuse_sums
from fl_dp.federation.server.aggregations.krum import Krum, nearest
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class Bulyan(Krum):
    @property
    def least_updates(self) -> int:
        return 4 * self.malicious + 3  # the paper's condition, section 4

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        refuse_sums(sums, "Bulyan choice")
        left, taken = list(updates), list[Update]()
        for _ in range(len(updates) - 2 * self.malicious):
            taken.append(left.pop(nearest(left, specs, self.malicious, 1)[0]))
        kept = len(taken) - 2 * self.malicious
        return {name: _near_median(taken, name, kept).astype(spec.dtype) for name, spec in specs.items()}


def _near_median(updates: Sequence[Update], name: str, kept: int) -> NDArray:
    """Of each number, the mean of the `kept` that are nearest to its median."""
    stacked = np.stack([in_double(update[name]) for update, _ in updates])
    places = np.argsort(np.abs(stacked - np.median(stacked, axis=0)), axis=0, kind="stable")[:kept]
    mean: NDArray = np.take_along_axis(stacked, places, axis=0).mean(axis=0)
    return mean


AGGREGATION = Bulyan
