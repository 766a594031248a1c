"""Sums of small discrete Gaussians are a large one."""

import math

import mpmath
import numpy as np
import pytest

from fl_dp.engine.noise import discrete_gaussian as module
from fl_dp.engine.noise.discrete_gaussian import BASE_WIDTH, CHUNK, FACTOR, DiscreteGaussian, width
from fl_dp.engine.noise.randomness import Randomness

SOURCE = Randomness(bytes(range(32)))


def _drawn(count, levels=3):
    numbers, draws = [], DiscreteGaussian(levels, SOURCE)
    while count:
        numbers.append(draws.take(min(count, CHUNK)))
        count -= len(numbers[-1])
    return np.concatenate(numbers)


@pytest.mark.parametrize("levels", [3, 4, 6])
def test_moments_of_the_width_that_is_used(levels):
    count = 200_000
    numbers = _drawn(count, levels) / width(levels)
    assert abs(numbers.mean()) < 6 / math.sqrt(count)
    assert abs(numbers.std() - 1) < 6 / math.sqrt(2 * count)
    assert abs((numbers**4).mean() - 3) < 6 * math.sqrt(96 / count)
    assert abs((numbers[1:] * numbers[:-1]).mean()) < 6 / math.sqrt(count)


def test_every_integer_can_come_and_the_last_digits_are_even():
    """Remainders by small and large powers of two: a coarse step, or a grid of its own, would show."""
    count = 200_000
    numbers = _drawn(count)
    for modulus in (2, 3, 16, FACTOR, 2 * FACTOR + 1):
        seen = np.bincount(numbers % modulus, minlength=modulus)
        expected = count / modulus
        statistic = float(((seen - expected) ** 2).sum() / expected)
        assert abs(statistic - modulus) < 6 * math.sqrt(2 * modulus) + 6


@pytest.mark.parametrize(("base", "factor"), [(9, 4), (4, 4), (3, 2)])
def test_a_sum_of_two_levels_is_the_discrete_gaussian_up_to_what_is_claimed(base, factor):
    """The theorem in numbers, by exact convolution; the first has an r as in the real one."""
    square = base**2 * (1 + factor**2)
    r = base * base / math.sqrt(square)
    with mpmath.workprec(400):
        ones = {x: mpmath.exp(mpmath.mpf(-(x**2)) / (2 * base**2)) for x in range(-40 * base, 40 * base)}
        ratios = []
        for z in (0, 1, 2, 3, 5, 17, 40):
            found = mpmath.fsum(ones[z - factor * y] * ones[y] for y in ones if z - factor * y in ones)
            ratios.append(found / mpmath.exp(mpmath.mpf(-(z**2)) / (2 * square)))
        spread = max(ratios) / min(ratios) - 1
    assert 0 < spread < 2 * 2.1 * math.exp(-2 * math.pi**2 * r**2)


def test_the_factor_that_the_docstring_claims():
    inner = BASE_WIDTH
    for _ in range(module.MOST - 1):
        whole = math.hypot(BASE_WIDTH, FACTOR * inner)
        r = BASE_WIDTH * inner / whole
        assert -2 * math.pi**2 * r**2 / math.log(2) + 1.1 < -136
        inner = whole
    assert inner == pytest.approx(width(module.MOST))


def test_the_largest_numbers_are_far_below_what_an_integer_holds():
    largest = 14.5 * BASE_WIDTH * sum(FACTOR**level for level in range(module.MOST))
    assert largest < 2**62


def test_numbers_are_never_given_twice():
    draws = DiscreteGaussian(3, SOURCE)
    taken = [draws.take(count) for count in (5, 2000, 5, 1000, 30, CHUNK, 7)]
    assert len(np.unique(np.concatenate(taken))) > 0.99 * sum(map(len, taken))
