import pytest
import torch
from torch import nn

from fl_dp.models.architectures.lenet_gn import lenet_gn


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (1, 32, 32), (3, 32, 32)])
def test_two_normed_convolutions_and_three_linear_layers(shape: tuple[int, ...]) -> None:
    model = lenet_gn(shape, num_classes=10)
    kinds = [type(layer) for layer in model if sum(1 for _ in layer.parameters())]
    assert kinds == [nn.Conv2d, nn.GroupNorm] * 2 + [nn.Linear] * 3
    assert model(torch.zeros(2, *shape)).shape == (2, 10)
