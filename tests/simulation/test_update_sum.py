"""A sum of updates against its definition."""

import numpy as np
import torch

from fl_dp.simulation.update_sum import _BLOCK, add


def test_the_sum_is_that_of_float64_whatever_the_shapes():
    torch.manual_seed(0)
    updates = [
        {"w": torch.randn(3, _BLOCK // 2 + 1), "b": torch.randn(()), "none": torch.zeros(0, 4)}
        for _ in range(9)
    ]
    total: dict[str, torch.Tensor] = {}
    for weight, update in enumerate(updates, start=1):
        add(total, update, float(weight))
    for name in ("w", "b", "none"):
        expected = sum(weight * one[name].double() for weight, one in enumerate(updates, start=1))
        assert total[name].dtype == torch.float64
        np.testing.assert_array_equal(total[name], expected.numpy())
