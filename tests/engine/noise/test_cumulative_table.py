"""The table is the distribution function, and its bits decide as 128 of them would."""

import math
from bisect import bisect_right

import mpmath
import numpy as np
import pytest

from fl_dp.engine.noise.discrete_gaussian import CumulativeTable, probabilities
from fl_dp.engine.noise.randomness import Randomness

ONE = 1 << 128


def drawn(table, numbers):
    """The numbers that uniform ones of 128 bits give; further bits only where they are needed."""
    first = np.array([number >> 112 for number in numbers], np.uint16)
    further = np.array([(number >> 64 & ((1 << 48) - 1)) << 16 for number in numbers], np.uint64)
    found, undecided = table.look_up(first)
    last = [numbers[place] & ((1 << 64) - 1) for place in undecided]
    found[undecided] = table.decide(first[undecided], further[undecided], last.__getitem__)
    return found


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
        (found,) = drawn(table, [number])
        assert found == expected, hex(number)
    ends = drawn(table, [0, ONE - 1])
    assert ends[0] < -12 * width < 12 * width < ends[1]  # far in the tails


@pytest.mark.parametrize("width", [1, 3, 20])
def test_the_numbers_drawn_have_the_probabilities(width):
    """Chi-square at 1 in 10^7, over all numbers that are expected at least ten times."""
    count = 200_000
    table = CumulativeTable(width)
    halves = Randomness(bytes(range(32))).stream().words(2 * count, np.uint64).tolist()
    found = drawn(table, [high << 64 | low for high, low in zip(halves[::2], halves[1::2], strict=True)])
    weights = np.array([math.exp(-(x**2) / (2 * width**2)) for x in range(-12 * width, 12 * width + 1)])
    expected = count * weights / weights.sum()
    seen = np.bincount(found.astype(int) + 12 * width, minlength=len(expected))
    often = expected >= 10
    statistic = float((((seen - expected) ** 2) / expected)[often].sum())
    freedom = int(often.sum())
    assert statistic < freedom + 5.2 * math.sqrt(2 * freedom) + 20
    assert statistic > freedom - 5.2 * math.sqrt(2 * freedom)


def test_no_numbers():
    assert len(drawn(CumulativeTable(2), [])) == 0
