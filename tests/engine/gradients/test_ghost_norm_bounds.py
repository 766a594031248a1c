"""Promise: what is added makes up for all that rounding and underflow may take off a ghost norm."""

import pytest
import torch

from fl_dp.engine.gradients.ghost_norm_bounds import (
    least_square,
    product_lengths,
    rounded_up,
    row_lengths,
    row_squares,
    sum_dtype,
)
from fl_dp.engine.sum_error import KAPPA, SHORT

TYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_what_is_added_is_twice_the_first_order_error_of_all_products(length, dtype):
    """length * eps / 2 of the sum of all magnitudes: every term times every other one."""
    terms = torch.rand(5, 9, dtype=dtype)
    magnitudes = (terms[:, :, None] * terms[:, None, :]).sum((1, 2))
    expected = magnitudes + 2 * length * torch.finfo(dtype).eps / 2 * magnitudes
    torch.testing.assert_close(rounded_up(magnitudes, terms, length), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("positions", "tile"), [(2, 2), (257, 128), (257, 64), (2**14, 128), (2**14, 64)])
def test_no_norm_is_below_a_known_part_of_its_terms(dtype, positions, tile):
    """Also where the sum has lost as much as it may. tile: of CPUs, and of Triton."""
    terms = torch.rand(5, positions, dtype=dtype)
    length = 2 + 2 * tile + 2 * -(-positions // tile)
    lost = -length * torch.finfo(dtype).eps / 2 * terms.sum(1).square()
    most = KAPPA if positions > SHORT else 2**11
    assert (rounded_up(lost, terms, length).sqrt() * most >= terms.sum(1)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_lengths_are_those_of_the_rows(dtype):
    left, right = torch.randn(3, 5, 4, dtype=dtype), torch.randn(3, 5, 2, dtype=dtype)
    expected = left.norm(dim=2) * right.norm(dim=2)
    torch.testing.assert_close(product_lengths(left, right), expected)
    torch.testing.assert_close(row_squares(left, dtype), left.square().sum(2))
    gram = torch.bmm(left, left.transpose(1, 2))
    torch.testing.assert_close(row_lengths(gram, 4), left.norm(dim=2))


@pytest.mark.parametrize("features", [1, 16, 1000])
def test_squares_that_count_as_zero_are_made_up_for_by_the_bound(features):
    """Each of a row's squares may lose the smallest normal number; the bound takes them times eps."""
    info = torch.finfo(torch.float32)
    rows = torch.full((1, 1, features), info.tiny**0.5 * 0.99)  # squares just below the smallest normal one
    lost = float(rows.double().square().sum())
    assert float(row_squares(rows, torch.float32)) * info.eps >= lost
    nothing = torch.zeros(1, 1, 1)
    assert float(row_lengths(nothing, features).double() ** 2) * info.eps >= lost * (1 - 1e-5)
    huge = torch.full((1, 1, 1), 1e18)
    hidden = lost * 1e36  # the squared length of the outer product
    assert float(rounded_up(torch.zeros(1), product_lengths(rows, huge), 1)) >= hidden


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (torch.float16, torch.float16, torch.float32),
        (torch.bfloat16, torch.float16, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.float64, torch.float32, torch.float64),
        (torch.bfloat16, torch.float64, torch.float64),
    ],
)
def test_products_are_added_in_float32_at_least(left, right, expected):
    assert sum_dtype(torch.zeros(1, dtype=left), torch.zeros(1, dtype=right)) == expected


@pytest.mark.parametrize("dtype", TYPES)
def test_squared_terms_are_increased_by_all_that_rounding_may_take_off(dtype):
    terms = torch.rand(5, 9, dtype=dtype)
    exact = terms.double().square().sum(1) / 4
    found = least_square(terms, 1000).double()
    assert (found >= exact * (1 + 1000 * torch.finfo(dtype).eps)).all()
    torch.testing.assert_close(found, exact, rtol=2e-4, atol=0)
