"""Losses that the engine computes itself, so that it can check now and then whether examples mix in them."""

import random
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor

from fl_dp.engine.tracing.mixing import LossesOf, check_no_mixing
from fl_dp.errors import ConfigError

_THOROUGH_FROM = 2  # examples: a smaller first batch cannot show mixing


class CheckedLosses:
    """Calls `losses_of`; searches the first batch for mixing, then one batch in `every`, on average.

    The system's entropy chooses the batches, so that no code in the losses can tell when it is watched.
    """

    def __init__(self, losses_of: LossesOf, every: int) -> None:
        if every < 1:
            raise ConfigError(f"Expected check_every={every} >= 1.")
        self._losses_of, self._every = losses_of, every
        self._searched = False
        self._chance = random.SystemRandom()
        self._made: WeakValueDictionary[int, Tensor] = WeakValueDictionary()

    def __call__(self, *batch: Any) -> Tensor:
        """The losses (N,) of a batch. Raises ProbeError where examples are seen to mix."""
        if not self._searched:
            check_no_mixing(self._losses_of, *batch, thorough=True)
        elif self._chance.randrange(self._every) == 0:
            check_no_mixing(self._losses_of, *batch)
        losses = self._losses_of(*batch)
        self._searched = self._searched or len(losses) >= _THOROUGH_FROM
        self._made[id(losses)] = losses
        return losses

    def check_made_here(self, losses: Tensor) -> None:
        """ConfigError for losses that were computed elsewhere: they were never searched for mixing."""
        if self._made.get(id(losses)) is not losses:
            raise ConfigError(
                "These losses do not come from engine.losses(...). With losses_of= the engine makes them "
                "itself, so that it can see whether examples mix: optimizer.step(loss=engine.losses(x, y))."
            )
