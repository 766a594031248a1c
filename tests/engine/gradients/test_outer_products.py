import pytest
import torch

from fl_dp.engine.gradients.outer_products import Outer


def layout(positions: int, dtype: torch.dtype = torch.float64) -> Outer:
    return Outer(torch.randn(5, positions, 3, dtype=dtype), torch.randn(5, positions, 4, dtype=dtype))


def gradients(outer: Outer) -> torch.Tensor:
    """(N, p, d), position by position."""
    terms = outer.left.double()[:, :, :, None] * outer.right.double()[:, :, None, :]
    return terms.sum(1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("positions", [1, 2, 15, 16, 40])
@pytest.mark.parametrize("kernel", ["ghost", "instantiate"])
def test_norms_and_sums_are_those_of_the_gradients(kernel: str, positions: int, dtype: torch.dtype) -> None:
    outer, factors = layout(positions, dtype), torch.rand(5, dtype=torch.float64)
    kept, grads = outer.keep(kernel), gradients(outer)
    rounding = {torch.bfloat16: 2e-2, torch.float32: 2e-3, torch.float64: 1e-9}[dtype]  # upwards
    squares = grads.square().sum((1, 2))
    torch.testing.assert_close(kept.norm_squared.double(), squares, rtol=rounding, atol=rounding)
    expected = torch.tensordot(factors.double(), grads, dims=1)
    total = kept.weighted_sum(factors, None)
    torch.testing.assert_close(total.double(), expected, rtol=rounding, atol=10 * rounding)


def test_no_examples_have_a_sum_of_zero() -> None:
    kept = layout(3).keep("ghost")
    total = kept.weighted_sum(torch.ones(5), torch.zeros(0, dtype=torch.int64))
    assert torch.equal(total, torch.zeros(3, 4, dtype=torch.float64))
