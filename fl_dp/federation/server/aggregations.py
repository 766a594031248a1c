"""How the updates of a round become one: the aggregations, each a row of the table at the end.

A row is a subclass of `Aggregation` (aggregation.py). The robust ones subclass `OfSingleUpdates`; they count
every client once, whatever its weight.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp.strategy.fedtrimmedavg import trim_mean
from flwr.serverapp.strategy.multikrum import select_multikrum

from fl_dp.errors import FederationError
from fl_dp.federation.server.aggregation import MALICIOUS, Aggregation, Update
from fl_dp.federation.wire.arrays import ArraySpec, NDArray, encode
from fl_dp.federation.wire.partial_sums import WeightedSum

Arrays = Mapping[str, NDArray]


class Mean(Aggregation):
    """The weighted mean of federated averaging (McMahan et al. 2017, arXiv 1602.05629), with public weights.

    Adds up in float64, so that order and partial sums change at most the last bit of the result.
    """

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


class OfSingleUpdates(Aggregation):
    needs_single_updates = True

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        if sums:
            raise FederationError(f"{type(self).__name__} needs each update by itself, not a sum of updates.")
        found = self.combined([update for update, _ in updates])
        return {name: found[name].astype(spec.dtype) for name, spec in specs.items()}

    @abstractmethod
    def combined(self, updates: Sequence[Arrays]) -> Arrays:
        """The combined arrays; they may have another type than the updates."""


class Median(OfSingleUpdates):
    """The median of each number (Yin et al. 2018, arXiv 1803.01498). No single client moves it far."""

    def combined(self, updates: Sequence[Arrays]) -> Arrays:
        return {name: np.median([update[name] for update in updates], axis=0) for name in updates[0]}


class TrimmedMean(OfSingleUpdates):
    """The mean of each number without its largest and least values (Yin et al. 2018, arXiv 1803.01498).

    At either end it drops as many values as clients are assumed to be malicious. Uses Flower's `trim_mean`.
    """

    argument = MALICIOUS

    @property
    def least_updates(self) -> int:
        return 2 * self.malicious + 1  # so that one value is left

    def combined(self, updates: Sequence[Arrays]) -> Arrays:
        share = (self.malicious + 0.25) / len(updates)  # trim_mean rounds share * n down
        return {name: trim_mean(_stacked(updates, name), share) for name in updates[0]}


class Krum(OfSingleUpdates):
    """The one update that is nearest to its n - f - 2 neighbours (Blanchard et al. 2017, arXiv 1703.02757).

    f is the number of clients that are assumed to be malicious. All other updates are dropped, so their noise
    is not averaged out. Uses Flower's `select_multikrum`.
    """

    argument = MALICIOUS

    @property
    def least_updates(self) -> int:
        return 2 * self.malicious + 3  # the paper's condition, proposition 4.2

    def combined(self, updates: Sequence[Arrays]) -> Arrays:
        return updates[self.nearest(updates, 1)[0]]

    def nearest(self, updates: Sequence[Arrays], count: int) -> list[int]:
        """The places of the `count` updates with the shortest distances to their n - f - 2 neighbours."""
        # Subtracting the median keeps distances. Flower's formula for them, |x|^2 + |y|^2 - 2 x y, then loses
        # no digits to what all updates share, nor to an update that is far away.
        middle = {name: np.median(_stacked(updates, name), axis=0) for name in updates[0]}
        contents = [
            RecordDict({"arrays": encode({name: update[name] - middle[name] for name in middle})})
            for update in updates
        ]
        chosen = select_multikrum(contents, self.malicious, count)
        return [next(place for place, one in enumerate(contents) if one is found) for found in chosen]


class MultiKrum(Krum):
    """The mean of the n - f updates that Krum takes first, as in Flower. Noise is averaged over them."""

    def combined(self, updates: Sequence[Arrays]) -> Arrays:
        taken = [updates[place] for place in self.nearest(updates, len(updates) - self.malicious)]
        return {name: np.mean(_stacked(taken, name), axis=0) for name in updates[0]}


class Bulyan(Krum):
    """Krum, again and again, then a trimmed mean (El Mhamdi, Guerraoui, Rouault 2018, arXiv 1802.07927).

    Krum takes one update after the other from those that are left, until n - 2f are taken. A new number is
    the mean of the n - 4f of theirs that are nearest to their median. So a hostile update cannot use one
    number alone: Krum may take it because it is near in all others.
    """

    @property
    def least_updates(self) -> int:
        return 4 * self.malicious + 3  # the paper's condition, section 4

    def combined(self, updates: Sequence[Arrays]) -> Arrays:
        left, taken = list(updates), list[Arrays]()
        for _ in range(len(updates) - 2 * self.malicious):
            taken.append(left.pop(self.nearest(left, 1)[0]))
        return {name: self._near_median(_stacked(taken, name)) for name in updates[0]}

    def _near_median(self, stacked: NDArray) -> NDArray:
        kept = len(stacked) - 2 * self.malicious
        order = np.argsort(np.abs(stacked - np.median(stacked, axis=0)), axis=0, kind="stable")
        mean: NDArray = np.take_along_axis(stacked, order[:kept], axis=0).mean(axis=0)
        return mean


class SecureSum(Aggregation):
    """Clients' steps are added up under masks, and only the sum is opened (docs/secure-aggregation.md).

    Has no updates to combine: the opened sum is a gradient, see `SecureAggregator` (secure_sum.py).
    """

    argument = "D:C"

    def take(self, argument: str) -> None:
        """Nothing: the run config reads it."""

    def combine(
        self, updates: Sequence[Update], sums: Sequence[WeightedSum], specs: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray]:
        raise FederationError("a secure sum is opened, not combined from updates")


def _stacked(updates: Sequence[Arrays], name: str) -> NDArray:
    """The array of that name in all updates, in double precision, real or complex."""
    stacked = np.stack([update[name] for update in updates])
    return stacked.astype(np.result_type(stacked.dtype, np.float64))


CHOICES = {
    "mean": Mean,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "krum": Krum,
    "multi-krum": MultiKrum,
    "bulyan": Bulyan,
    "secure": SecureSum,
}
