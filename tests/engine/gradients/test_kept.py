import pytest
import torch

from fl_dp.engine.gradients.kept import (
    keep_instantiated,
    weighted_pair,
    weighted_rows,
)

FACTORS = torch.tensor([0.5, 0.0, 2.0], dtype=torch.float64)


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 5), (3,)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_lengths_and_the_sum_of_factors_times_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    grads = torch.randn(shape).to(dtype)
    kept = keep_instantiated(grads)
    total = kept.weighted_sum(FACTORS, None)
    assert total.dtype == torch.promote_types(dtype, torch.float32)
    expected = torch.tensordot(FACTORS, grads.double(), dims=1)
    torch.testing.assert_close(total.double(), expected, rtol=1e-5, atol=1e-6)
    squares = grads.double().view(3, -1).square().sum(1)
    torch.testing.assert_close(kept.norm_squared.double(), squares, rtol=1e-5, atol=0)


@pytest.mark.parametrize("rows", [torch.tensor([0, 2]), slice(2, 3), slice(0, 1)])
def test_an_example_that_is_left_out_is_never_multiplied(rows: torch.Tensor | slice) -> None:
    """Zero times NaN is NaN."""
    grads = torch.randn(3, 4, dtype=torch.float64)
    grads[1] = torch.nan
    total = keep_instantiated(grads).weighted_sum(FACTORS, rows)
    torch.testing.assert_close(total, FACTORS[rows] @ grads[rows])


def test_factors_of_narrow_numbers_lose_nothing() -> None:
    rows = torch.ones(3, 2, dtype=torch.bfloat16)
    factors = torch.tensor([1 / 3, 1 / 5, 1 / 7])
    torch.testing.assert_close(weighted_rows(factors, rows)[:, 0], factors, rtol=0, atol=0)


@pytest.mark.parametrize(("left", "right"), [((3, 2), (3, 9)), ((3, 9), (3, 2))])
def test_the_smaller_of_a_pair_is_scaled(left: tuple[int, int], right: tuple[int, int]) -> None:
    one, other = torch.randn(left), torch.randn(right)
    a, b = weighted_pair(FACTORS.float(), one, other)
    expected = FACTORS.float()[:, None, None] * one[:, :, None] * other[:, None, :]
    torch.testing.assert_close(a[:, :, None] * b[:, None, :], expected)
    assert torch.equal(*((b, other) if left < right else (a, one)))
