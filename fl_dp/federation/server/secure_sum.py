"""Turns a round's opened sum into the next global weights: one gradient step, by post-processing only."""

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.accounting.shares import LEAST_MEMBERS
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.federation.server.ask import Asked
from fl_dp.federation.server.combine import Aggregator
from fl_dp.federation.server.norm_bound import FAILURE, LOOSE, largest_draw, length_of, real_numbers
from fl_dp.federation.server.verify import RoundResult
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.reporting.reports import OpenedSum

logger = logging.getLogger("fl_dp")


class SecureAggregator(Aggregator):
    """weights - learning rate * sum / expected records, as the members' plans say.

    The server's optimizer then continues as from any average; with fedavgm this is SGD with momentum.
    """

    def least_updates(self, asked: int) -> int:
        """No sum of fewer members is opened."""
        return asked - self._config.secure_dropouts

    def least_asked(self, asked: int) -> int:
        """With fewer no sum can begin: `honest_shares` refuses them."""
        dropouts, colluders = self._config.secure_dropouts, self._config.secure_colluders
        return max(LEAST_MEMBERS, 2 * dropouts + colluders + 1)

    def _needed(self, result: RoundResult) -> int:
        """As many as the sum's own noise needs, whatever clients were never in the sum."""
        return result.sums[0].shares + self._config.secure_colluders if result.sums else 0

    def aggregate(self, weights: ArrayRecord, result: RoundResult) -> ArrayRecord | None:
        """As in `Aggregator`; a round whose sum was not opened is lost, and `lost` says why."""
        self.opened = None
        new = super().aggregate(weights, result)
        if new is None and not self.lost:
            self.lost = next((one.reason for one in result.verdicts.values() if one.status == "failed"), "")
        return new

    @property
    def expected(self) -> Mapping[str, ArraySpec]:
        """Multiples of the grid's spacing, in the shapes of the parameters; a complex number is two."""
        return {
            name: ArraySpec((*spec.shape, 2) if spec.dtype.kind == "c" else spec.shape, np.dtype(np.int64))
            for name, spec in self._shared.items()
        }

    def _combined(self, start: Mapping[str, NDArray], result: RoundResult) -> Mapping[str, NDArray]:
        survivors, plan, first = result.summed, result.summed[0].plan, result.sums[0]
        self.opened = OpenedSum(len(survivors), first.shares, first.masked)
        multiplier = plan.noise_multiplier / math.sqrt(first.shares)
        grid = noise_grid(plan.max_grad_norm, multiplier, real_numbers(self._shared))
        total = {name: sum(part.arrays[name] for part in result.sums) for name in self._shared}
        gradient = {name: grid.spacing * np.asarray(whole, np.float64) for name, whole in total.items()}
        step = plan.learning_rate / sum(one.plan.expected_batch_size for one in survivors)
        step *= self._scale(gradient, survivors, grid.deviation)
        new = {}
        for name, old in start.items():
            way = gradient[name].view(np.complex128)[..., 0] if old.dtype.kind == "c" else gradient[name]
            new[name] = (old - step * way).astype(old.dtype)
        return new

    def _scale(self, gradient: Mapping[str, NDArray], survivors: Sequence[Asked], deviation: float) -> float:
        """The factor for the sum: 1, or less if the sum is longer than honest members can make it.

        Uses the bounds of `norm_bound.py`, for one step and all members together. Nobody can see who made the
        sum longer. deviation: of one member's share of the noise.
        """
        surprise = math.log(4 * self._config.rounds * self._config.clients / FAILURE)
        sizes = [(one.client.profile.public_size, one.plan.expected_batch_size) for one in survivors]
        records = sum(largest_draw(size, batch / size, surprise) for size, batch in sizes)
        far = math.sqrt(real_numbers(self._shared)) + math.sqrt(2 * surprise)
        noise = math.sqrt(len(survivors)) * deviation * far
        most = LOOSE * (survivors[0].plan.max_grad_norm * records + noise)
        length = length_of(gradient)
        if length <= most:
            return 1.0
        logger.warning(
            "the sum of %d members has length %.4g and is scaled down to %.4g, the most that honest members "
            "make; some member is dishonest or faulty",
            len(survivors),
            length,
            most,
        )
        return most / length
