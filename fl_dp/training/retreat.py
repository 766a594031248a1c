"""When memory runs out: the same with fewer examples at once."""

import logging
import sys
from collections.abc import Callable
from typing import TypeVar

from fl_dp.engine.kernel_choice.memory import is_out_of_memory

logger = logging.getLogger("fl_dp")

Result = TypeVar("Result")


def halved(rows: int) -> int:
    return rows // 2


def retreating(compute: Callable[[int], Result], rows: int, fewer: Callable[[int], int] = halved) -> Result:
    """compute(rows), or of fewer, as often as memory runs out; raises if it does so for one."""
    while True:
        try:
            return compute(rows)
        except RuntimeError as error:
            if rows == 1 or not is_out_of_memory(error):
                raise
        rows = fewer(rows)  # outside of the handler, whose traceback would keep what did not fit


class Retreat:
    """Takes fewer rows for good. fits: the most examples known to fit in memory at once.

    fewer: the next number to try; it depends on public numbers, and not on the secret size of a draw.
    """

    def __init__(self, fewer: Callable[[int], int] = halved) -> None:
        self.fits, self._fewer = sys.maxsize, fewer

    def run(self, compute: Callable[[int], Result], rows: int) -> Result:
        return retreating(compute, min(rows, self.fits), self._noted)

    def _noted(self, rows: int) -> int:
        self.fits = self._fewer(rows)
        logger.warning("memory ran out: at most %d examples at once from now on", self.fits)
        return self.fits
