"""Checks whether a client's losses mix its records: before the payment, and now and then after it."""

import logging
import secrets
from collections.abc import Callable

import torch
from torch import Tensor

from fl_dp.engine.tracing.draws import Watch, kept_random_state
from fl_dp.engine.tracing.mixing import check_no_mixing, find_mixing
from fl_dp.errors import ENDS
from fl_dp.training.objective import Objective

logger = logging.getLogger("fl_dp")

EVERY = 50  # steps, on average, between two searched real batches; a search takes about as long as a step
_SYNTHETIC = 8


class MixingWatch:
    """Searches batches for losses that depend on other examples, see `engine/tracing/mixing.py`.

    losses_of: maps a batch's tensors to losses (N,).
    """

    def __init__(self, losses_of: Callable[..., Tensor]) -> None:
        self._losses_of = losses_of

    def check(self, objective: Objective) -> None:
        """Search examples of random numbers, thoroughly. ProbeError if they mix, or if they draw random
        numbers from elsewhere than torch's global generator. Call it before a payment.
        """
        with kept_random_state():
            batch = objective.blank(_SYNTHETIC)
            with Watch(secrets.randbits(32)):  # a secret seed, as when the model is watched
                self._losses_of(*batch)
        check_no_mixing(self._losses_of, *batch, thorough=True)

    def look(self, *batch: Tensor) -> bool:
        """Search this batch with probability 1 / EVERY, by the system's entropy; returns whether it did.

        For use after a payment: findings, and errors that the batch raises, go to the client's own log.
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
    """The error's text for the log. User code may define exceptions whose text cannot be formed."""
    try:
        return str(error)
    except BaseException as another:
        if isinstance(another, ENDS):
            raise
        return type(error).__name__
