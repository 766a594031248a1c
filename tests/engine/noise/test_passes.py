"""Passes that are rounded one by one: what a record moves is covered, and integers add up exactly."""

import math
from fractions import Fraction

import pytest
import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.discrete_gaussian import width
from fl_dp.engine.noise.gaussian import add_gaussian_noise, add_noise, count_of, multiples_of, numbers_of
from fl_dp.engine.noise.grid import NoiseGrid, noise_grid, pass_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.sum_error import sum_error
from fl_dp.errors import ConfigError

MOST, SIZE, COUNT = 100, 8, 50
PASSES = math.ceil(MOST / SIZE)


@pytest.mark.parametrize("noise_multiplier", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize(
    ("most", "size", "count"), [(100, 8, 50), (10**5, 8, 10**8), (5000, 64, 10**6), (7, 8, 1)]
)
def test_the_noise_covers_the_rounding_of_every_pass_on_both_sides(noise_multiplier, most, size, count):
    found = pass_grid(0.5, noise_multiplier, count, most, size)
    passes = math.ceil(most / size)
    moved = 0.5 * (1 + sum_error(most)) + passes * math.sqrt(count) * found.spacing
    continuous = found.deviation * math.sqrt(1 - (2.21 / width(found.levels)) ** 2)
    assert continuous >= noise_multiplier * moved
    assert found.deviation <= 1.015 * noise_multiplier * 0.5 * (1 + sum_error(most))


def test_the_grid_is_finer_for_many_passes_and_that_of_one_is_as_ever():
    assert pass_grid(1.0, 1.0, 10**6, 1000, 1).levels > noise_grid(1.0, 1.0, 10**6).levels
    assert pass_grid(1.0, 1.0, 50, 100, 100) == noise_grid(1.0, 1.0, 50, sum_error(100))


def test_records_that_change_places_move_the_sum_by_no_more_than_is_charged():
    """Every whole pass is rounded up, and down once its records have moved up by one place.

    What one process is charged for, one rounding of the sum, is passed by far.
    """
    grid = pass_grid(1.0, 1.0, COUNT, MOST, SIZE)
    spacing, little = grid.spacing, 1e-3
    of_passes = torch.zeros(PASSES, SIZE, COUNT, dtype=torch.float64)
    of_passes[:, 0] = -2 * little * torch.arange(PASSES)[:, None]
    of_passes[:, 1] = 0.5 + little - of_passes[:, 0]
    clipped = of_passes.view(-1, COUNT)[:MOST] * spacing

    def total(records: torch.Tensor) -> torch.Tensor:
        passes = torch.split(records, SIZE)
        return sum(
            (multiples_of([one.sum(0)], grid) for one in passes),
            torch.zeros(COUNT, dtype=torch.int64),
        )

    moved = float((total(clipped) - total(clipped[1:])).double().norm())
    record, of_one_rounding = float(clipped[0].norm()) / spacing, math.sqrt(COUNT)
    assert 10 * (record + of_one_rounding) < moved <= record + PASSES * of_one_rounding


def test_a_grid_so_fine_that_a_pass_could_be_cut_is_refused():
    most = (SIZE + sum_error(MOST)) * 1.0
    for noise_multiplier in (1e-9, 1e-8, 1.0):
        grid = pass_grid(1.0, noise_multiplier, COUNT, MOST, SIZE)
        assert most / grid.spacing < grid.cut
        assert PASSES * grid.cut <= 2**62
    with pytest.raises(ConfigError, match="too fine for 64 bits to hold the sum of 100 records"):
        pass_grid(1.0, 1e-12, COUNT, MOST, SIZE)


def test_a_single_pass_gets_what_one_process_gets_from_the_same_bytes(monkeypatch):
    clipped = ClippedSum(
        {"w": torch.randn(3, 4, dtype=torch.float64), "b": torch.randn(2, dtype=torch.complex128)},
        1.0,
        torch.zeros(9),
        most=10,
    )
    source = Randomness(bytes(range(32)))
    monkeypatch.setattr(Randomness, "system", classmethod(lambda cls: source))
    expected = add_gaussian_noise(clipped, noise_multiplier=1.0, generator="secure")
    grid = pass_grid(1.0, 1.0, count_of(clipped.grads.values()), 10, 10)
    total = multiples_of(clipped.grads.values(), grid)
    add_noise(total, grid, "secure")
    found = numbers_of(total, grid, clipped.grads)
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert torch.equal(found[name], one)


def test_multiples_are_the_nearest_ones():
    grid = pass_grid(1.0, 1.0, 4, 10, 2)
    numbers = torch.tensor([0.49, -0.51, 1.5, 2.5], dtype=torch.float64) * grid.spacing
    assert multiples_of([numbers[:1], numbers[1:]], grid).tolist() == [0, -1, 2, 2]
    infinite = multiples_of([torch.tensor([1e300, -1e300])], grid)
    assert int(infinite.abs().max()) <= grid.cut + 2**8, "the cut in float64, whose last bit may be 2^8"


def test_a_sum_in_float32_is_divided_and_rounded_in_float64():
    sums, grid = torch.randn(1000, generator=torch.Generator().manual_seed(0)), NoiseGrid(3e-11, 3, 1.0)
    expected = [round(Fraction(one) / Fraction(grid.spacing)) for one in sums.tolist()]
    assert multiples_of([sums], grid).tolist() == expected
    back = numbers_of(torch.tensor(expected), grid, {"w": sums})["w"]
    assert back.tolist() == sums.tolist()
