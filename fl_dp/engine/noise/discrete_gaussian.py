"""Discrete Gaussian numbers of a large width, combined from a few of a small width.

One number is x1 + k (x2 + k (x3 + ...)), with independent x of the discrete Gaussian of width BASE_WIDTH. Its
distribution is the discrete Gaussian of width

    width(levels) = BASE_WIDTH sqrt(1 + k^2 + k^4 + ...),      k = FACTOR,

up to a factor of 1 +- 2^-130 in every probability, the table's own error aside.

Proof. Let y have width t, x width s, and let z = x + k y, of width w = sqrt(s^2 + k^2 t^2). Completing the
square,

    P(z) ~ sum over y of exp(-(z - k y)^2 / 2 s^2 - y^2 / 2 t^2)
         = exp(-z^2 / 2 w^2) times the sum over y of exp(-(y - c)^2 / 2 r^2),   r = s t / w, some c.

By Poisson's summation formula the last sum is r sqrt(2 pi) (1 + 2 sum over m >= 1 of
exp(-2 pi^2 r^2 m^2) cos(2 pi m c)), the same for all c up to a factor of 1 +- 2.1 exp(-2 pi^2 r^2) (the
smoothing parameter of the integers: Micciancio, Regev 2007; the convolution: Peikert 2010, theorem 3.1;
Micciancio, Walter 2017). With s = 282, k = 128 and t >= s: r > 2.2028, and the factor is 1 +- 2^-136.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_dp.engine.noise.cumulative_table import Streams, table
from fl_dp.engine.noise.randomness import Randomness

BASE_WIDTH, FACTOR = 282, 128
FEWEST, MOST = 3, 6  # levels; with six, numbers are far below 2^63
CHUNK = 1 << 15  # numbers at a time: they stay in the cache
_NARROW = 3  # levels that fit in 32 bits, which take half the time

# The distance of one number from the discrete Gaussian, all of the above included: a factor of 1 +- 2^-130 in
# every probability, and 2^-111 in total variation.
LOG2_FACTOR, LOG2_DISTANCE = -130, -111


def width(levels: int) -> float:
    """The standard deviation of a number. It is so wide that this equals its width up to 2^-1000."""
    return BASE_WIDTH * math.sqrt(sum(float(FACTOR) ** (2 * level) for level in range(levels)))


class DiscreteGaussian:
    """Independent numbers of `width(levels)` from one source, which is used for nothing else."""

    def __init__(self, levels: int, randomness: Randomness) -> None:
        self._levels, self._base, self._streams = levels, table(BASE_WIDTH), Streams(randomness)

    def take(self, count: int) -> NDArray[np.int64]:
        """(count,) new numbers, which the caller may overwrite; CHUNK at a time is the fastest."""
        numbers = self._base.draw(self._levels * count, self._streams).reshape(self._levels, count)
        total: NDArray[Any] = numbers[0].astype(np.int32)
        for place, level in enumerate(numbers[1:], start=1):
            if place == _NARROW:
                total = total.astype(np.int64)
            total *= FACTOR
            total += level
        return total.astype(np.int64, copy=False)
