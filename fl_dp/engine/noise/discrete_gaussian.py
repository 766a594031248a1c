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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import accumulate
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
_CHUNKS_EACH, _GROUP = 4, 64  # chunks that pay for a thread; chunks whose bits are in memory at a time
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

    def look_up(self, bits: NDArray[np.uint16]) -> tuple[NDArray[np.int16], NDArray[np.intp]]:
        """(n,) numbers by their first bits, and the places of those that need further bits."""
        numbers = np.empty(len(bits), np.int16)
        for start in range(0, len(bits), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            self._first.take(bits[part], mode="clip", out=numbers[part])
        return numbers, (numbers == _OPEN).nonzero()[0]

    def decide(
        self, first: NDArray[np.uint16], further: NDArray[np.uint64], last: Callable[[int], int]
    ) -> NDArray[np.int64]:
        """(n,) numbers by first and further bits. last: 64 more, where these are a threshold's."""
        bits = further >> np.uint64(_FIRST)
        bits |= first.astype(np.uint64) << np.uint64(64 - _FIRST)
        below = self._below.take(first).astype(np.intp)
        below += self._high.take(below, mode="clip") < bits
        (several,) = self._several.take(first).nonzero()
        below[several] = np.searchsorted(self._high, bits[several], side="left")
        same = self._high.take(below, mode="clip") == bits
        for place in same.nonzero()[0]:  # once in 2^50 numbers
            whole = int(bits[place]) << 64 | last(int(place))
            while below[place] < len(self._thresholds) and self._thresholds[below[place]] <= whole:
                below[place] += 1
        return below + self.least


@lru_cache(maxsize=8)
def table(width: int) -> CumulativeTable:
    """The table of that width; making it takes a few milliseconds."""
    return CumulativeTable(width)


@contextmanager
def mapping(threads: int, chunks: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map` over so many chunks: on threads of its own if that many chunks pay for starting them."""
    threads = min(threads, chunks // _CHUNKS_EACH)
    if threads < 2:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def add_discrete_gaussian(
    total: NDArray[np.int64], levels: int, randomness: Randomness, threads: int = 1
) -> None:
    """Add an independent number of `width(levels)` to each of (d,) integers, in place.

    randomness: used for nothing else; streams 0, 1 and 2 are first, further and last bits. The numbers are
    the same with any number of threads: a chunk's place in the streams follows from the chunks before it.
    """
    base, further, used = table(BASE_WIDTH), randomness.stream(1), 0
    parts = [total[start : start + CHUNK] for start in range(0, len(total), CHUNK)]

    def look_up(place: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        first_block = 2 * levels * CHUNK * place // BLOCK
        bits = randomness.stream(0, first_block).words(levels * len(parts[place]), np.uint16)
        numbers, undecided = base.look_up(bits)
        return numbers, undecided, bits.take(undecided)

    def add(part: NDArray[Any], found: tuple[NDArray[Any], ...], more: NDArray[Any], before: int) -> None:
        numbers, undecided, bits = found
        numbers[undecided] = base.decide(bits, more, lambda place: _last(randomness, before + place))
        _add_levels(part, numbers.reshape(levels, len(part)))

    with mapping(threads, len(parts)) as each:
        for start in range(0, len(parts), _GROUP):
            some = parts[start : start + _GROUP]
            found = list(each(look_up, range(start, start + len(some))))
            counts = [len(undecided) for _, undecided, _ in found]
            more = [further.words(count, np.uint64) for count in counts]
            list(each(add, some, found, more, accumulate([used, *counts[:-1]])))
            used += sum(counts)


def _add_levels(part: NDArray[np.int64], numbers: NDArray[np.int16]) -> None:
    """numbers: (levels, n)."""
    combined: NDArray[Any] = numbers[0].astype(np.int32)
    for place, level in enumerate(numbers[1:], start=1):
        if place == _NARROW:
            combined = combined.astype(np.int64)
        combined *= FACTOR
        combined += level
    part += combined.astype(np.int64, copy=False)  # a sum of two types takes longer than this copy


def _last(randomness: Randomness, place: int) -> int:
    """The last bits beside word `place` of the further ones."""
    block, word = divmod(place, BLOCK // 8)
    return int(randomness.stream(2, block).words(word + 1, np.uint64)[word])
