"""Promise: a norm that was rounded up is no shorter than the length, also where sums lose much; sums of sums
are in float64, whatever is added and however it lies in memory.
"""

import math

import pytest
import torch

from fl_dp.engine.gradients.lengths import squared_lengths
from fl_dp.engine.rounding import add_to, long_type, round_up


@pytest.mark.parametrize("num_elements", [1, 33, 1024, 1025, 2048, 10_000_000])
@pytest.mark.parametrize("small", [2.0**-12.4, 2.0**-12, 1e-25, 1e-19])
@pytest.mark.parametrize("large", [0, 1, 32])
def test_no_shorter_than_the_length_where_small_squares_are_lost_beside_large_ones(
    num_elements, small, large
):
    """2^-12 beside 1: each square is half a unit in the last place of the sum, and may be lost."""
    values = torch.full((1, num_elements), small)
    values[:, :large] = 1.0
    norms = round_up(squared_lengths(values).sqrt(), num_elements, 1)
    assert (norms.double() >= values.double().square().sum(1).sqrt()).all()


def test_what_is_added_is_little():
    norms = torch.tensor([0.0, 1.0, 7.0])
    up = round_up(norms, 10**8, 100)
    assert float(up[0]) <= 2e-15
    assert ((up - norms) <= norms * 4e-5 + 2e-15).all()
    assert float(round_up(norms.double(), 10**8, 100)[1]) <= 1 + 1e-13


def test_norms_that_are_not_finite_stay_so():
    up = round_up(torch.tensor([math.nan, math.inf]), 10, 1)
    assert up.isnan().tolist() == [True, False]
    assert up.isinf().tolist() == [False, True]


def test_without_any_use_there_is_nothing_to_round():
    assert round_up(torch.zeros(3), 0, 0).eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("num_elements", "num_terms"), [(1, 1), (10**6, 3), (10**8, 5000)])
def test_what_is_added_is_no_less_than_the_theorem_asks_for(dtype, num_elements, num_terms):
    """Higham 2002, section 4.2: 1024 + terms additions, each off by eps / 2; the root by half of that."""
    precision = torch.finfo(dtype)
    zero, one = round_up(torch.tensor([0.0, 1.0], dtype=dtype), num_elements, num_terms).tolist()
    assert zero**2 >= num_elements * precision.tiny * (1 - 4 * precision.eps)
    assert one - 1 >= (1024 + num_terms) * precision.eps / 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("transposed", [False, True])
def test_it_adds_in_the_long_type(dtype, transposed, monkeypatch):
    monkeypatch.setattr("fl_dp.engine.rounding._CHUNK", 7)
    torch.manual_seed(0)
    part = torch.randn(5, 6, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    start = torch.randn(5, 6).to(long_type(part))
    total = start.T.contiguous().T if transposed else start.clone()
    assert total.is_contiguous() is not transposed
    add_to(total, part.T.contiguous().T, 1 / 3)
    torch.testing.assert_close(total, start + part.to(long_type(part)) / 3, rtol=1e-14, atol=1e-14)
