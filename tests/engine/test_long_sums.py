"""Sums in float64, whatever is added and however it lies in memory."""

import pytest
import torch

from fl_dp.engine import long_sums
from fl_dp.engine.long_sums import add_to, long_type


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("transposed", [False, True])
def test_it_adds_in_the_long_type(dtype, transposed, monkeypatch):
    monkeypatch.setattr(long_sums, "_CHUNK", 7)
    torch.manual_seed(0)
    part = torch.randn(5, 6, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    start = torch.randn(5, 6).to(long_type(part))
    total = start.T.contiguous().T if transposed else start.clone()
    assert total.is_contiguous() is not transposed
    add_to(total, part.T.contiguous().T, 1 / 3)
    torch.testing.assert_close(total, start + part.to(long_type(part)) / 3, rtol=1e-14, atol=1e-14)


def test_many_small_parts_are_not_lost():
    total = torch.ones(3, dtype=torch.float64)
    for _ in range(1000):
        add_to(total, torch.full((3,), 1e-9))
    torch.testing.assert_close(total - 1, torch.full((3,), 1e-6, dtype=torch.float64), rtol=1e-6, atol=0)
