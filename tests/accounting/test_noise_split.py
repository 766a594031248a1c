"""The sum and the count of a step share its noise multiplier exactly, or the step is refused."""

import math
from fractions import Fraction

import pytest

from fl_dp.accounting.noise_split import split_noise
from fl_dp.errors import ConfigError


@pytest.mark.parametrize(
    ("noise", "batch"), [(1.0, 64), (1.5, 512), (0.3, 10_000), (4.2, 29), (1e-3, 1), (300.0, 2**20)]
)
def test_both_together_are_the_step_that_is_charged(noise, batch):
    """1 / z^2 = 1 / z_sum^2 + 1 / z_count^2, by exact fractions of the numbers that come out."""
    split = split_noise(noise, batch)
    together = 1 / Fraction(split.sum) ** 2 + 1 / Fraction(split.count) ** 2
    assert abs(together * Fraction(noise) ** 2 - 1) < Fraction(1, 10**12)
    assert math.isclose(split.together, noise, rel_tol=1e-12)
    assert noise < split.sum <= noise / math.sqrt(0.9) * (1 + 1e-12)  # the count takes a tenth at most
    assert (noise / split.count) ** 2 <= 0.1 * (1 + 1e-12)


def test_the_counts_deviation_is_a_twentieth_of_the_batch_where_that_costs_less():
    """Andrew et al. 2021, section 3.1. A half is what one example moves."""
    assert split_noise(1.0, 512).count / 2 == pytest.approx(512 / 20)
    assert split_noise(4.0, 64).count / 2 == pytest.approx(4 * math.sqrt(10) / 2)


def test_a_batch_whose_count_would_say_nothing_is_refused():
    least = math.ceil(4.0 * math.sqrt(10))
    split_noise(4.0, least)
    with pytest.raises(ConfigError, match=f"batch of {least - 1} is too small .* at least {least} examples"):
        split_noise(4.0, least - 1)
