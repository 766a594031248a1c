"""One sum, one noise: clients' steps are added up under masks, and only the sum is opened.

The server's use of the sum: `../secure_sum.py`; the masks: `../../secure_sum/`; see
docs/secure-aggregation.md.
"""

from collections.abc import Mapping, Sequence

from fl_dp.errors import FederationError
from fl_dp.federation.server.aggregation import Aggregation, Update
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.federation.wire.partial_sums import WeightedSum


class SecureSum(Aggregation):
    """Has no updates to combine: the opened sum is a gradient, see `SecureAggregator`."""

    argument = "D:C"

    def take(self, argument: str) -> None:
        """Nothing: the run config reads it."""

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        raise FederationError("a secure sum is opened, not combined from updates")


AGGREGATION = SecureSum
