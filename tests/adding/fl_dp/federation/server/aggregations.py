"""Added to the aggregations."""

from collections.abc import Mapping, Sequence

import numpy as np

from fl_dp.federation.server.aggregation import Aggregation, Update
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class OwnTrim(Aggregation):
    """The mean without the largest and the smallest values of each number, of which users name how many."""

    needs_single_updates = True
    argument = "ENDS"
    _ends = 1

    def take(self, argument: str) -> None:
        self._ends = int(argument)

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        ordered = {name: np.sort([update[name] for update, _ in updates], axis=0) for name in specs}
        return {
            name: ordered[name][self._ends : -self._ends].mean(0).astype(spec.dtype)
            for name, spec in specs.items()
        }


CHOICES = {
    "own-trim": OwnTrim,
    "half": type("Half", (Aggregation,), {}),  # half written: it combines nothing
}
