"""Krum (Blanchard et al. 2017, arXiv 1703.02757): the one update that is nearest to its n - f - 2 neighbours.

Uses Flower's `select_multikrum`; f is the number of clients assumed to be malicious. All other updates are
dropped, so their noise is not averaged out.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp.strategy.multikrum import select_multikrum

from fl_dp.federation.server.aggregation import MALICIOUS, Aggregation, Update, in_double, refuse_sums
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, encode
from fl_dp.federation.wire.partial_sums import WeightedSum


class Krum(Aggregation):
    needs_single_updates = True
    argument = MALICIOUS

    @property
    def least_updates(self) -> int:
        return 2 * self.malicious + 3  # the paper's condition, proposition 4.2

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        refuse_sums(sums, "Krum choice")
        update, _ = updates[nearest(updates, specs, self.malicious, 1)[0]]
        return {name: update[name].astype(spec.dtype) for name, spec in specs.items()}


def nearest(
    updates: Sequence[Update], specs: Mapping[str, ArraySpec], malicious: int, count: int
) -> list[int]:
    """The places of the `count` updates with the shortest distances to their n - f - 2 neighbours."""
    # Subtracting the median keeps distances. Flower's formula for them, |x|^2 + |y|^2 - 2 x y, then loses no
    # digits to what all updates share, nor to an update that is far away.
    middle = {name: np.median([in_double(update[name]) for update, _ in updates], axis=0) for name in specs}
    contents = [
        RecordDict({"arrays": encode({name: update[name] - middle[name] for name in specs})})
        for update, _ in updates
    ]
    chosen = select_multikrum(contents, malicious, count)
    return [next(place for place, one in enumerate(contents) if one is found) for found in chosen]


AGGREGATION = Krum
