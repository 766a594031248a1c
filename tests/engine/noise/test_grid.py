"""The unit is public, and the noise covers all that a record can move on the grid."""

import math

import pytest

from fl_dp.engine.noise.discrete_gaussian import width
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.sum_error import MOST_ERROR
from fl_dp.errors import ConfigError


@pytest.mark.parametrize("count", [1, 650, 10**6, 10**9])
@pytest.mark.parametrize("noise_multiplier", [1e-3, 0.5, 1.0, 10.0, 1e3, 1e6])
@pytest.mark.parametrize("sensitivity", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("error", [0.0, MOST_ERROR])
def test_the_multiplier_is_kept_over_all_that_a_record_moves(error, sensitivity, noise_multiplier, count):
    grid = noise_grid(sensitivity, noise_multiplier, count, error)
    moved = sensitivity * (1 + error) + math.sqrt(count) * grid.spacing
    continuous = grid.deviation * math.sqrt(1 - (2.21 / width(grid.levels)) ** 2)
    assert continuous >= noise_multiplier * moved
    assert grid.deviation <= 1.015 * noise_multiplier * sensitivity
    assert grid.deviation == pytest.approx(grid.spacing * width(grid.levels))


def test_the_grid_is_finer_where_its_rounding_would_cost():
    assert noise_grid(1.0, 1.0, 10**6).levels == 3
    assert noise_grid(1.0, 100.0, 10**6).levels == 4
    assert noise_grid(1.0, 1e6, 10**9).levels > 4


@pytest.mark.parametrize(
    ("sensitivity", "noise_multiplier"),
    [(0, 1), (1, 0), (math.inf, 1), (1, math.inf), (math.nan, 1), (1, -1)],
)
def test_what_protects_nothing_is_refused(sensitivity, noise_multiplier):
    with pytest.raises(ConfigError, match="to be finite and > 0"):
        noise_grid(sensitivity, noise_multiplier, 10)


def test_noise_that_no_grid_is_fine_enough_for_is_refused():
    with pytest.raises(ConfigError, match="too large for its grid"):
        noise_grid(1.0, 1e12, 10**9)


@pytest.mark.parametrize("sensitivity", [1e-16, 1e16])
def test_a_bound_whose_rounding_is_not_bounded_is_refused(sensitivity):
    with pytest.raises(ConfigError, match="expected 1e-12 to 1e12"):
        noise_grid(sensitivity, 1.0, 10)
