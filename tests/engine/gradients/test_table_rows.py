import pytest
import torch

from fl_dp.engine.gradients.table_rows import Rows

ROWS = Rows(
    torch.tensor([[0, 2, 2], [4, 4, 4], [1, 0, 3]]), torch.randn(3, 3, 2, dtype=torch.float64), num_rows=6
)


def gradients() -> torch.Tensor:
    """(N, rows, d), position by position."""
    tables = torch.zeros(3, 6, 2, dtype=torch.float64)
    for n in range(3):
        for t in range(3):
            tables[n, ROWS.indices[n, t]] += ROWS.grads[n, t]
    return tables


@pytest.mark.parametrize("kernel", ["ghost", "instantiate"])
def test_norms_and_sums_are_those_of_the_tables(kernel: str) -> None:
    kept, factors = ROWS.keep(kernel), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(kept.norm_squared, gradients().square().sum((1, 2)))
    expected = torch.tensordot(factors, gradients(), dims=1)
    torch.testing.assert_close(kept.weighted_sum(factors, None), expected)


def test_an_example_that_is_left_out_adds_nothing() -> None:
    total = ROWS.keep("ghost").weighted_sum(torch.ones(3), torch.tensor([1]))
    torch.testing.assert_close(total, gradients()[1])
