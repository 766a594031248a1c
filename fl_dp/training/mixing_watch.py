"""Do the losses of a client's steps mix its records? Asked before the payment, and now and then after it."""

import logging
import secrets
from collections.abc import Callable

import torch
from torch import Tensor

from fl_dp.engine.tracing.draws import Watch
from fl_dp.engine.tracing.mixing import check_no_mixing, find_mixing
from fl_dp.errors import ENDS
from fl_dp.training.objective import Objective

logger = logging.getLogger("fl_dp")

EVERY = 50  # steps, on average, between two real batches that are searched: at about a step's time each
_SYNTHETIC = 8


class MixingWatch:
    """Searches batches for losses that depend on other examples, see `engine/tracing/mixing.py`.

    losses_of: a batch's tensors to losses (N,).
    """

    def __init__(self, losses_of: Callable[..., Tensor]) -> None:
        self._losses_of = losses_of

    def check(self, objective: Objective) -> None:
        """On examples of random numbers, thoroughly; ProbeError when they mix, or draw random numbers from
        elsewhere than torch's global generator. For before a payment.
        """
        with torch.random.fork_rng(devices=[]):
            batch = objective.blank(_SYNTHETIC)
            with Watch(secrets.randbits(32)):  # as the model is watched: no seed that everybody knows
                self._losses_of(*batch)
        check_no_mixing(self._losses_of, *batch, thorough=True)

    def look(self, *batch: Tensor) -> bool:
        """Search this batch with a chance of 1 / EVERY, by the system's entropy; whether it was searched.

        For after a payment: what is found goes to the client's own log, and so does what the batch raises.
        Nothing that is sent changes.
        """
        if secrets.randbelow(EVERY):
            return False
        try:
            found = find_mixing(self._losses_of, *batch)
        except BaseException as error:
            if isinstance(error, (*ENDS, torch.AcceleratorError)):
                raise
            found = f"it raised {type(error).__name__}: {words_of(error)}"
        if found is not None:
            logger.warning("a batch was searched for records that move others' losses: %s", found)
        return True


def words_of(error: BaseException) -> str:
    """For the log. What code of the user's own raises may itself raise when it is asked for its words."""
    try:
        return str(error)
    except BaseException as another:
        if isinstance(another, ENDS):
            raise
        return type(error).__name__
