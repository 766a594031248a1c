"""The grid of a sum: a member counts on its own, and a server's is that one or none."""

from dataclasses import replace

import numpy as np
import pytest

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum.grid import proposed_head
from fl_dp.federation.secure_sum.terms import Head
from fl_dp.federation.secure_sum.vector import check_grid, flat, grid_of, unflat
from fl_dp.records import RoundPlan

PLAN = RoundPlan("run", 3, "linear", 1, 64, 1.0, 0.0, 4.0, 1.0, shares=3)


def proposed() -> Head:
    weights = {"weight": np.zeros(12, np.float32)}
    return proposed_head(PLAN, weights, numbers=12, members=5, dropouts=1, colluders=1)


def test_the_grid_of_its_own_model_is_accepted():
    check_grid(proposed(), 12)


@pytest.mark.parametrize(
    "changes",
    [
        {"spacing": 2 * proposed().spacing},  # on which rounding moves a sum by more
        {"levels": proposed().levels + 1},
        {"sensitivity": 0.99 * proposed().sensitivity},
        {"share_deviation": 0.99 * proposed().share_deviation},  # less noise than the steps are charged for
        {"sampler": "discrete gaussian 0"},
        {"numbers": 11},
        {"dropouts": 0},  # more shares, of which each is smaller
        {"noise_multiplier": 5.0},
        {"noise_multiplier": 1e-9},  # no grid is fine enough
        {"max_grad_norm": 2.0},
    ],
)
def test_any_other_grid_is_declined(changes: dict[str, object]):
    with pytest.raises(DeclinedError):
        check_grid(replace(proposed(), **changes), 12)


def test_a_model_of_another_size_has_another_grid():
    with pytest.raises(DeclinedError, match=r"of 12 numbers .* client's own are 13"):
        check_grid(proposed(), 13)


def test_fewer_shares_are_larger_ones():
    """The variance is (sigma S)^2 / n: each of three has a third of that of the whole noise."""
    three, one = grid_of(1.0, 4.0, 3, 12), grid_of(1.0, 4.0, 1, 12)
    assert three.share_deviation == pytest.approx(4.0 * three.sensitivity / 3**0.5, rel=1e-6)
    assert one.share_deviation == pytest.approx(3**0.5 * three.share_deviation, rel=1e-2)


def test_all_members_put_their_numbers_in_one_order():
    arrays = {"b": np.arange(6).reshape(2, 3), "a": np.array(-7), "c": np.arange(2)}
    vector = flat(arrays)
    assert vector.tolist() == [-7, 0, 1, 2, 3, 4, 5, 0, 1]
    found = unflat(vector, {name: array.shape for name, array in reversed(arrays.items())})
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }
