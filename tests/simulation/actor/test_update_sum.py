"""A sum of updates against its definition."""

import numpy as np
import torch

from fl_dp.simulation.actor.update_sum import BLOCK, UpdateSum


def test_the_sum_is_that_of_float64_whatever_the_shapes():
    torch.manual_seed(0)
    updates = [
        {"w": torch.randn(3, BLOCK // 2 + 1), "b": torch.randn(()), "none": torch.zeros(0, 4)}
        for _ in range(9)
    ]
    total = UpdateSum()
    for weight, update in enumerate(updates, start=1):
        total.add(update, float(weight))
    taken = total.take()
    for name in ("w", "b", "none"):
        expected = sum(weight * one[name].double() for weight, one in enumerate(updates, start=1))
        assert taken[name].dtype == np.float64
        np.testing.assert_array_equal(taken[name], expected.numpy())


def test_what_was_taken_is_not_in_the_next_sum():
    total = UpdateSum()
    assert total.take() == {}
    total.add({"w": torch.ones(3)}, 2.0)
    total.take()
    total.add({"w": torch.ones(3)}, 5.0)
    np.testing.assert_array_equal(total.take()["w"], [5.0, 5.0, 5.0])
    assert total.take() == {}
