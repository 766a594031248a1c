"""Max pooling, as PyTorch defines it."""

import pytest
import torch
from torch import nn

from fl_dp.models.pooling import MaxPool2d


@pytest.mark.parametrize("stride", [1, 2])
def test_numbers_gradients_and_layout_are_those_of_torch(stride: int) -> None:
    x = torch.randn(3, 5, 13, 13, dtype=torch.float64, requires_grad=True)
    ours, theirs = (kind(2, stride)(x) for kind in (MaxPool2d, nn.MaxPool2d))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert ours.is_contiguous()
    weights = torch.randn_like(theirs)
    gradients = [torch.autograd.grad((out * weights).sum(), x)[0] for out in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def test_examples_one_by_one_are_as_all_at_once() -> None:
    x = torch.randn(4, 3, 6, 6)
    torch.testing.assert_close(torch.vmap(MaxPool2d(2))(x), nn.MaxPool2d(2)(x), rtol=0, atol=0)


def test_no_examples_are_pooled_to_none() -> None:
    assert MaxPool2d(2)(torch.zeros(0, 4, 6, 6)).shape == (0, 4, 3, 3)
