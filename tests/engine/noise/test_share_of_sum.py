"""A client's share of a secure sum: integers on one grid, whose noise adds up to the whole."""

import math

import numpy as np
import pytest
import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise.gaussian import MOST_OF_ONE, share_of_sum
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError

BOUND, SIGMA = 0.5, 1.5


def _share(values, shares=4, key=bytes(32)):
    clipped = ClippedSum({"w": values}, BOUND, torch.zeros(1))
    return share_of_sum(clipped, noise_multiplier=SIGMA, shares=shares, generator=Randomness(key))


def test_the_grid_is_that_of_a_smaller_multiplier():
    _, grid = _share(torch.zeros(3, 5), shares=9)
    assert grid == noise_grid(BOUND, SIGMA / 3, 15)


def test_shares_add_up_to_the_noise_of_the_whole_and_each_is_as_large_as_it_is_said_to_be():
    """Nine shares of 20,000 numbers: the deviation of their sum is that of sigma C, within 2 %."""
    parts = [_share(torch.zeros(20_000), shares=9, key=bytes([i]) * 32) for i in range(9)]
    shares, grid = [share["w"].double() for share, _ in parts], parts[0][1]
    assert 0.985 < sum(shares).std().item() * grid.spacing / (SIGMA * BOUND) < 1.03
    assert shares[0].std().item() * grid.spacing == pytest.approx(grid.deviation, rel=0.03)
    assert grid.deviation >= SIGMA * BOUND / 3


def test_the_sum_itself_is_in_it():
    values = torch.linspace(-40, 40, 101)
    share, grid = _share(values)
    off = share["w"].double() * grid.spacing - values
    assert abs(off).max() < 8 * grid.deviation
    assert share["w"].dtype == torch.int64
    assert share["w"].shape == values.shape


def test_another_sum_or_another_key_has_other_noise():
    zero, grid = _share(torch.zeros(1000))
    one, _ = _share(torch.full((1000,), 1.0))
    other, _ = _share(torch.zeros(1000), key=bytes([7]) * 32)
    moved = (one["w"] - zero["w"]).double() * grid.spacing - 1.0
    assert moved.std() > grid.deviation  # the same noise would leave nothing but rounding
    assert not torch.equal(zero["w"], other["w"])
    again, _ = _share(torch.zeros(1000))
    assert torch.equal(zero["w"], again["w"])


def test_a_complex_number_is_two():
    assert _share(torch.zeros(4, dtype=torch.complex64))[0]["w"].shape == (4, 2)


def test_no_number_of_one_client_can_make_the_sum_wrap():
    share, _ = _share(torch.tensor([1e30, -1e30, math.inf], dtype=torch.float64))
    room = 2**34  # the noise of four levels ends below it
    assert abs(share["w"].numpy()).max() <= MOST_OF_ONE + room
    assert 100 * (MOST_OF_ONE + room) < np.iinfo(np.int64).max


def test_no_share_is_of_nobody():
    with pytest.raises(ConfigError, match="shares=0"):
        _share(torch.zeros(3), shares=0)
