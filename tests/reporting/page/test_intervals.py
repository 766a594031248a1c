"""Intervals of a share: Wilson's without noise, and right nineteen times in twenty with it."""

import numpy as np
import pytest

from fl_dp.reporting.page.outcomes import NOT_TOLD, Z, share


@pytest.mark.parametrize("a", [0, 1, 19, 20])
def test_without_noise_it_is_wilsons(a: int) -> None:
    n, p = 20, a / 20
    middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    found = share(a, n - a)
    expected = (p, max(0.0, middle - half), min(1.0, middle + half))
    assert (found.value, found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("records", "p", "deviation", "cells"),
    [(100, 0.9, 0.0, (1, 1)), (60, 0.8, 3.0, (8, 8)), (300, 0.95, 10.0, (4, 12)), (2000, 0.1, 20.0, (9, 9))],
)
def test_it_holds_in_95_per_cent(records: int, p: float, deviation: float, cells: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    held, times = 0, 4000
    for _ in range(times):
        own = random.binomial(records, p)
        noise = deviation * np.sqrt(cells) * random.standard_normal(2)
        found = share(own + noise[0], records - own + noise[1], deviation, cells)
        held += found.low is not None and found.high is not None and found.low <= p <= found.high
    assert 0.92 < held / times < 0.965


def test_where_noise_may_be_all_there_is_nothing_is_told() -> None:
    assert share(0, 0) == NOT_TOLD
    assert share(3.0, -9.0, 1.0) == NOT_TOLD
    assert share(10.0, 10.0, 5.0, (4, 4)) == NOT_TOLD  # 20 records, and noise of 14 in their number
    found = share(-4.0, 60.0, 4.0)  # a negative count
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(0.12, abs=0.05)
