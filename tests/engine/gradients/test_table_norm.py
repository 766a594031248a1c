"""Definition: the length of the table that an example's positions add up to."""

import pytest
import torch
from torch import Tensor

from fl_dp.engine.gradients import example_chunks as chunks
from fl_dp.engine.gradients.table_norm import table_norm_squared

NUM_ROWS = 5


def _by_definition(indices: Tensor, grads: Tensor) -> Tensor:
    tables = torch.zeros(len(grads), NUM_ROWS, grads.shape[2], dtype=torch.float64)
    for n, (rows, parts) in enumerate(zip(indices, grads, strict=True)):
        for row, part in zip(rows.tolist(), parts, strict=True):
            tables[n, row] += part.double()
    return tables.square().sum((1, 2))


def _example(n, T, d, dtype=torch.float64):  # noqa: N803
    torch.manual_seed(0)
    return torch.randint(0, NUM_ROWS, (n, T)), torch.randn(n, T, d).to(dtype)


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize(("T", "d"), [(1, 1), (2, 3), (9, 4), (40, 1)])
@pytest.mark.parametrize("workspace", [1, 500, 1 << 21])
def test_equals_the_definition_in_float64(monkeypatch, n, T, d, workspace):  # noqa: N803
    monkeypatch.setattr(chunks, "_CPU_BYTES", workspace)
    indices, grads = _example(n, T, d)
    found = table_norm_squared(indices, grads)
    torch.testing.assert_close(found, _by_definition(indices, grads), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_is_float32_for_shorter_types(dtype):
    indices, grads = _example(7, 20, 3, dtype)
    found = table_norm_squared(indices.int(), grads)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), _by_definition(indices, grads), rtol=1e-4, atol=0)


def test_rows_that_nobody_shares_cost_no_accuracy():
    indices, grads = torch.arange(1000)[None], torch.randn(1, 1000, 4)
    exact = grads.double().square().sum((1, 2))
    torch.testing.assert_close(table_norm_squared(indices, grads).double(), exact, rtol=1e-5, atol=0)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_values_that_are_not_finite_stay_with_their_example(poison):
    indices, grads = _example(4, 6, 3, torch.float32)
    clean = table_norm_squared(indices, grads)
    grads[2, 3, 1] = poison
    found = table_norm_squared(indices, grads)
    assert not found[2].isfinite()
    others = torch.tensor([0, 1, 3])
    assert torch.equal(found[others], clean[others])


def test_at_least_the_sum_in_any_order():
    """Three parts that cancel in one order leave 1,000 in another: the norm must cover both."""
    parts = torch.tensor([1e10, 4321.0, -1e10])
    for order in ([0, 1, 2], [0, 2, 1], [2, 1, 0]):
        grads = parts[order].view(1, 3, 1)
        norm = table_norm_squared(torch.zeros(1, 3, dtype=torch.int64), grads).sqrt()
        assert norm >= 5000
