"""The table is the distribution function, and its bits decide as 128 of them would."""

import math
from bisect import bisect_right

import mpmath
import numpy as np
import pytest

from fl_dp.engine.noise.discrete_gaussian import CumulativeTable, Streams, probabilities
from fl_dp.engine.noise.randomness import Randomness

ONE = 1 << 128


class Given:
    """A stream that hands out what it is given."""

    def __init__(self, words):
        self._words = list(words)

    def words(self, count, dtype):
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return np.array(taken, dtype)


class GivenStreams:
    def __init__(self, numbers):
        """numbers: uniform ones of 128 bits, whose parts are handed out as they are asked for."""
        self.first = Given([number >> 112 for number in numbers])
        self._more = Given([(number >> 64 & ((1 << 48) - 1)) << 16 for number in numbers])
        self._last, self.used = [number & ((1 << 64) - 1) for number in numbers], 0

    def further(self, count):
        self.used += count
        return self._more.words(count, np.uint64)

    def last(self, place):
        return self._last[place]


def _exact_thresholds(width):
    """By mpmath, with nothing of the code under test: the distribution function times 2^128."""
    with mpmath.workprec(600):
        weight = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * width**2)) for x in range(int(16 * width) + 8)]
        total = 2 * mpmath.fsum(weight[1:]) + 1
        return lambda x: (
            mpmath.fsum(weight[max(0, -x) :] if x <= 0 else [*weight, *weight[1 : x + 1]]) / total
        )


@pytest.mark.parametrize("width", [1, 2, 7])
def test_thresholds_are_the_distribution_function_to_the_last_bit(width):
    table, below = CumulativeTable(width), _exact_thresholds(width)
    assert table.least < -13 * width
    for place, threshold in enumerate(table._thresholds):
        x = table.least + place
        if x > 0:
            continue  # P(X <= x) of the other half by symmetry, below
        with mpmath.workprec(600):
            assert abs(int(mpmath.floor(below(x) * ONE)) - threshold) <= 1
    half = len(table._thresholds) // 2
    for place in range(half):
        assert abs(table._thresholds[place] + table._thresholds[-1 - place] - ONE) <= 2


def test_probabilities_of_the_width_that_is_used():
    with mpmath.workprec(600):
        for x, found in enumerate(probabilities(282)):
            exact = mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * 282**2))
            error = abs(mpmath.mpf(found) / (1 << 320) - exact)
            assert error < exact * mpmath.mpf(2) ** -150 + mpmath.mpf(2) ** -290


@pytest.mark.parametrize("width", [1, 3, 282])
def test_every_uniform_number_gives_what_the_distribution_function_says(width):
    table = CumulativeTable(width)
    rng = np.random.default_rng(0)
    thresholds = table._thresholds
    some = [thresholds[int(place)] for place in rng.integers(len(thresholds), size=200)]
    numbers = [0, 1, ONE - 1, *thresholds[:40], *thresholds[-40:], *some]
    numbers += [max(0, number - 1) for number in numbers] + [min(ONE - 1, number + 1) for number in numbers]
    numbers += [int(rng.integers(2**62)) << 66 | int(rng.integers(2**62)) for _ in range(500)]
    for number in numbers:
        expected = bisect_right(thresholds, number) + table.least
        (found,) = table.draw(1, GivenStreams([number]))
        assert found == expected, hex(number)
    ends = [int(table.draw(1, GivenStreams([number]))[0]) for number in (0, ONE - 1)]
    assert ends[0] < -12 * width < 12 * width < ends[1]  # far in the tails


@pytest.mark.parametrize("width", [1, 3, 20])
def test_the_numbers_drawn_have_the_probabilities(width):
    """Chi-square at 1 in 10^7, over all numbers that are expected at least ten times."""
    count = 200_000
    table = CumulativeTable(width)
    found = table.draw(count, Streams(Randomness(bytes(range(32)))))
    weights = np.array([math.exp(-(x**2) / (2 * width**2)) for x in range(-12 * width, 12 * width + 1)])
    expected = count * weights / weights.sum()
    seen = np.bincount(found.astype(int) + 12 * width, minlength=len(expected))
    often = expected >= 10
    statistic = float((((seen - expected) ** 2) / expected)[often].sum())
    freedom = int(often.sum())
    assert statistic < freedom + 5.2 * math.sqrt(2 * freedom) + 20
    assert statistic > freedom - 5.2 * math.sqrt(2 * freedom)


def test_no_numbers():
    assert len(CumulativeTable(2).draw(0, Streams(Randomness(bytes(32))))) == 0


def test_first_further_and_last_bits_are_of_three_streams():
    source = Randomness(bytes(range(32)))
    streams = Streams(source)
    further = [*streams.further(30), *streams.further(10)]
    found = [
        streams.first.words(40, np.uint64).tolist(),
        further,
        [streams.last(place) for place in range(40)],
    ]
    assert found == [source.stream(number).words(40, np.uint64).tolist() for number in range(3)]
    assert len(set(map(tuple, found))) == 3
    assert streams.used == 40


def test_last_bits_belong_to_the_place_of_the_further_ones():
    """Numbers at thresholds, where all 128 bits count, drawn at once and after others."""
    table = CumulativeTable(282)
    at = [table._thresholds[place] - place % 2 for place in range(900, 1500)]
    numbers = [number for number in at if table._first[number >> 112] == np.iinfo(np.int16).min]
    assert len(numbers) > 500
    streams = GivenStreams(numbers)
    found = [*table.draw(200, streams), *table.draw(len(numbers) - 200, streams)]
    assert found == [bisect_right(table._thresholds, number) + table.least for number in numbers]
