"""The opened sum of a round becomes the next global weights: one gradient step, by post-processing alone."""

import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord

from fl_dp.accounting.shares import LEAST_MEMBERS
from fl_dp.config.run import RunConfig
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.federation.server.aggregating import Aggregating
from fl_dp.federation.server.asking import Asked
from fl_dp.federation.server.judging import Judged
from fl_dp.federation.server.norm_bound import FAILURE, LOOSE, largest_draw, real_numbers
from fl_dp.federation.wire.arrays import ArraySpec, NDArray
from fl_dp.reporting.reports import OpenedSum

logger = logging.getLogger("fl_dp")


class SecureAggregating(Aggregating):
    """weights - learning rate * sum / expected records: what the members' plans said they descend along.

    The server's optimizer goes on from there as from any average: with fedavgm it is SGD with momentum.
    """

    def __init__(self, config: RunConfig, shared: Mapping[str, ArraySpec]) -> None:
        super().__init__(config, shared)
        self._numbers = real_numbers(shared)

    def least_updates(self, asked: int) -> int:
        """Of fewer members no sum is opened."""
        return asked - self._config.secure_dropouts

    def least_asked(self, asked: int) -> int:
        """Of fewer no sum can be begun: `honest_shares` refuses them."""
        dropouts, colluders = self._config.secure_dropouts, self._config.secure_colluders
        return max(LEAST_MEMBERS, 2 * dropouts + colluders + 1)

    def _needed(self, judged: Judged) -> int:
        """As many as the sum's own noise takes: who had no part in it from the start is not missed."""
        return judged.sums[0].shares + self._config.secure_colluders if judged.sums else 0

    def aggregate(self, weights: ArrayRecord, judged: Judged) -> ArrayRecord | None:
        """As of any round; one whose sum was not opened is lost, and says why."""
        self.opened = None
        new = super().aggregate(weights, judged)
        if new is None and not self.lost:
            failed = (one.reason for one in judged.verdicts.values() if one.status == "failed")
            self.lost = next(failed, "")
        return new

    @property
    def expected(self) -> dict[str, ArraySpec]:
        """Multiples of the grid's spacing, in the shapes of the parameters; a complex number is two."""
        return {name: _in_integers(spec) for name, spec in self._shared.items()}

    def _combined(
        self, weights: ArrayRecord, start: Mapping[str, NDArray], judged: Judged
    ) -> Mapping[str, NDArray]:
        survivors, plan, first = judged.summed, judged.summed[0].plan, judged.sums[0]
        self.opened = OpenedSum(len(survivors), first.shares, first.masked)
        multiplier = plan.noise_multiplier / math.sqrt(first.shares)
        grid = noise_grid(plan.max_grad_norm, multiplier, self._numbers)
        total = {name: sum(part.arrays[name] for part in judged.sums) for name in self._shared}
        gradient = {name: grid.spacing * np.asarray(whole, np.float64) for name, whole in total.items()}
        step = plan.learning_rate / sum(one.plan.expected_batch_size for one in survivors)
        step *= self._held(gradient, survivors, grid.deviation)
        return {name: _stepped(start[name], gradient[name], step) for name in self._shared}

    def _held(self, gradient: Mapping[str, NDArray], survivors: Sequence[Asked], deviation: float) -> float:
        """1, or less where the sum is longer than that of honest members can be: it is then brought to that
        length. Who made it longer nobody can see. deviation: of one member's share of the noise.

        By the bounds of `norm_bound.py`, for one step and all members together.
        """
        chances = self._config.rounds * self._config.clients
        surprise = math.log(4 * chances / FAILURE)
        records = sum(_largest_draw(one, surprise) for one in survivors)
        noise = math.sqrt(len(survivors)) * deviation * (math.sqrt(self._numbers) + math.sqrt(2 * surprise))
        most = LOOSE * (survivors[0].plan.max_grad_norm * records + noise)
        length = math.sqrt(sum(float(np.linalg.norm(one.reshape(-1))) ** 2 for one in gradient.values()))
        if length <= most:
            return 1.0
        logger.warning(
            "the sum of %d members has length %.4g and is scaled down to %.4g, the longest that honest ones "
            "can make; a member sends what it should not", len(survivors), length, most,
        )  # fmt: skip
        return most / length


def _largest_draw(asked: Asked, surprise: float) -> int:
    size = asked.client.profile.public_size
    return largest_draw(size, asked.plan.expected_batch_size / size, surprise)


def _stepped(start: NDArray, gradient: NDArray, step: float) -> NDArray:
    """start - step * gradient, in the type of `start`."""
    way = gradient.view(np.complex128)[..., 0] if start.dtype.kind == "c" else gradient
    return (start - step * way).astype(start.dtype)


def _in_integers(spec: ArraySpec) -> ArraySpec:
    shape = (*spec.shape, 2) if spec.dtype.kind == "c" else spec.shape
    return ArraySpec(shape, np.dtype(np.int64))
