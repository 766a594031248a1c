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

A number of the small width s comes from inverting its distribution function, exact to 2^-114. The discrete
Gaussian gives x a probability proportional to exp(-x^2 / (2 s^2)) (Canonne, Kamath, Steinke 2020, arXiv
2004.00010, definition 1). A uniform number of 128 bits is compared with the distribution function, which was
computed in integers. Sixteen bits nearly always decide. If they do not, 48 more are drawn, and then 64 more:
the result is the same as with all 128 bits.
"""

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_dp.engine.noise.randomness import BLOCK, Randomness

BASE_WIDTH, FACTOR = 282, 128
FEWEST, MOST = 3, 6  # levels; with six, numbers are far below 2^63
CHUNK = 1 << 15  # numbers at a time: they stay in the cache
_NARROW = 3  # levels that fit in 32 bits, which take half the time

# The distance of one number from the discrete Gaussian, all of the above included: a factor of 1 +- 2^-130 in
# every probability, and 2^-111 in total variation.
LOG2_FACTOR, LOG2_DISTANCE = -130, -111

_BITS = 128  # of the distribution function
_FIXED = 320  # fractional bits while it is computed
_SMALLEST = 150  # probabilities below 2^-150 of the largest one are taken as zero
_FIRST = 16  # bits that are drawn for every number
_OPEN = np.iinfo(np.int16).min  # marks table entries for which the first bits do not decide
_AT_ONCE = 1 << 14  # lookups: NumPy makes eight bytes of each index, which stay in the cache


def width(levels: int) -> float:
    """The standard deviation of a number. It is so wide that this equals its width up to 2^-1000."""
    return BASE_WIDTH * math.sqrt(sum(float(FACTOR) ** (2 * level) for level in range(levels)))


def probabilities(width: int) -> list[int]:
    """Probabilities of 0, 1, ..., times a common factor, as integers; relative error 2^-290.

    They are proportional to exp(-x^2 / (2 width^2)). From x to x + 1, each is the one before times a ratio,
    and each ratio is the one before times a constant.
    """
    with localcontext() as context:
        context.prec = 2 * _BITS
        square = Decimal(width) ** 2
        constant = int((-1 / square).exp() * 2**_FIXED)
        ratio = int((-1 / (2 * square)).exp() * 2**_FIXED)
    found, current = [], 1 << _FIXED
    while current >> (_FIXED - _SMALLEST):
        found.append(current)
        current, ratio = current * ratio >> _FIXED, ratio * constant >> _FIXED
    return found


class CumulativeTable:
    """Draws from the discrete Gaussian of `width`, 1 to 2,000.

    Distance from the exact distribution: each threshold is rounded down to a multiple of 2^-128, and what
    lies beyond the last number is left out. In total variation this is less than 2^-114 for the largest
    width, and less than 2^-117 for a width of 282.
    """

    def __init__(self, width: int) -> None:
        ones = probabilities(width)
        every = [*ones[:0:-1], *ones]
        self.least = 1 - len(ones)  # the smallest number that is drawn
        total, seen = sum(every), 0
        self._thresholds = []  # P(X <= x) 2^128, for all numbers but the largest
        for one in every[:-1]:
            seen += one
            self._thresholds.append((seen << _BITS) // total)
        self._high = np.array([threshold >> 64 for threshold in self._thresholds], np.uint64)
        # For each value of the first 16 bits: how many thresholds lie below it, and how many begin with it.
        tops, values = self._high >> np.uint64(64 - _FIRST), np.arange(1 << _FIRST)
        self._below = np.searchsorted(tops, values, side="left").astype(np.int16)
        within = np.searchsorted(tops, values, side="right") - self._below
        self._several = within > 1  # only in the tails
        self.most_within = int(within.max())  # thresholds that begin with the same bits
        self._first = np.where(within > 0, _OPEN, self._below + self.least).astype(np.int16)

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """For a device: the number of each 16 bits, or _OPEN; the thresholds below; all thresholds.

        The second has one entry more, for all thresholds. Their high and low halves are the bits of int64.
        """
        halves = [[threshold >> 64, threshold & (1 << 64) - 1] for threshold in self._thresholds]
        high, low = np.array(halves, np.uint64).T.copy().view(np.int64)
        below = np.append(self._below, len(self._thresholds)).astype(np.int32)
        return self._first, below, high, low

    def draw(self, count: int, streams: "Streams") -> NDArray[np.int16]:
        """(count,) numbers."""
        bits = streams.first.words(count, np.uint16)
        numbers = np.empty(count, np.int16)
        for start in range(0, count, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            self._first.take(bits[part], mode="clip", out=numbers[part])
        (undecided,) = (numbers == _OPEN).nonzero()
        if len(undecided):
            numbers[undecided] = self._by_more_bits(bits.take(undecided), streams)
        return numbers

    def _by_more_bits(self, first: NDArray[np.uint16], streams: "Streams") -> NDArray[np.int64]:
        bits = streams.further(len(first)) >> np.uint64(_FIRST)
        bits |= first.astype(np.uint64) << np.uint64(64 - _FIRST)
        below = self._below.take(first).astype(np.intp)
        below += self._high.take(below, mode="clip") < bits
        (several,) = self._several.take(first).nonzero()
        below[several] = np.searchsorted(self._high, bits[several], side="left")
        same = self._high.take(below, mode="clip") == bits
        for place in same.nonzero()[0]:  # once in 2^50 numbers
            rest = streams.last(streams.used - len(bits) + int(place))
            whole = int(bits[place]) << 64 | rest
            while below[place] < len(self._thresholds) and self._thresholds[below[place]] <= whole:
                below[place] += 1
        return below + self.least


class Streams:
    """The sources of first, further and last bits: three streams of one Randomness."""

    def __init__(self, randomness: Randomness) -> None:
        self.first, self._more = randomness.stream(0), randomness.stream(1)
        self.used = 0  # words of further bits
        self._randomness = randomness

    def further(self, count: int) -> NDArray[np.uint64]:
        """(count,) words for those that the first bits do not decide."""
        self.used += count
        return self._more.words(count, np.uint64)

    def last(self, place: int) -> int:
        """The last bits beside word `place` of the further ones."""
        block, word = divmod(place, BLOCK // 8)
        return int(self._randomness.stream(2, block).words(word + 1, np.uint64)[word])


@lru_cache(maxsize=8)
def table(width: int) -> CumulativeTable:
    """The table of that width; making it takes a few milliseconds."""
    return CumulativeTable(width)


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
