"""Sums of small discrete Gaussians are a large one."""

import math
import random
from bisect import bisect_right
from itertools import islice
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from fl_dp.engine.noise import discrete_gaussian as module
from fl_dp.engine.noise.discrete_gaussian import BASE_WIDTH, CHUNK, FACTOR, add_discrete_gaussian, width
from fl_dp.engine.noise.randomness import BLOCK, Randomness

OPEN = np.iinfo(np.int16).min
SOURCE = Randomness(bytes(range(32)))


def _drawn(count, levels=3, source=SOURCE, threads=1):
    total = np.zeros(count, np.int64)
    add_discrete_gaussian(total, levels, source, threads)
    return total


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


class Given:
    """A Randomness whose three streams are these words."""

    def __init__(self, *streams):
        self._streams = streams

    def stream(self, number, block=0):
        left = iter(self._streams[number][block * BLOCK // self._streams[number].itemsize :])
        return SimpleNamespace(words=lambda count, dtype: np.array(list(islice(left, count)), dtype))


@pytest.mark.parametrize("threads", [1, 3])
def test_each_number_is_what_its_128_bits_say(monkeypatch, threads):
    """Bits at thresholds, where all 128 count, over many chunks: each has its own place in three streams."""
    monkeypatch.setattr(module, "CHUNK", 64)
    monkeypatch.setattr(module, "_CHUNKS_EACH", 1)
    monkeypatch.setattr(module, "_GROUP", 4)
    table = module.table(BASE_WIDTH)
    bits = [table._thresholds[place] - place % 2 for place in range(900, 1500)]
    middle = len(table._thresholds) // 2
    bits += [table._thresholds[place] + (9 << 112) for place in range(middle, middle + 300)]  # 16 bits decide
    random.Random(0).shuffle(bits)
    first = np.array([one >> 112 for one in bits], np.uint16)
    wide = [one for one, open_ in zip(bits, table.look_up(first)[0] == OPEN, strict=True) if open_]
    assert len(wide) == 600
    further = np.array([(one >> 64 & (1 << 48) - 1) << 16 for one in wide], np.uint64)
    last = np.array([one & (1 << 64) - 1 for one in wide], np.uint64)
    found = _drawn(len(bits), 1, Given(first, further, last), threads)
    assert found.tolist() == [bisect_right(table._thresholds, one) + table.least for one in bits]


def test_the_numbers_are_the_same_on_any_number_of_threads():
    one = _drawn(9 * CHUNK + 5)
    for threads in (2, 3):
        np.testing.assert_array_equal(_drawn(len(one), threads=threads), one)


def test_numbers_are_never_given_twice():
    numbers = _drawn(3 * CHUNK + 7)
    assert len(np.unique(numbers)) > 0.98 * len(numbers)


def test_a_failure_on_a_thread_is_one_of_the_caller(monkeypatch):
    monkeypatch.setattr(module, "_add_levels", lambda part, numbers: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _drawn(9 * CHUNK, threads=2)
