import pytest
import torch
from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.lenet_gn import lenet_gn


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (1, 32, 32), (3, 32, 32)])
def test_two_normed_convolutions_and_three_linear_layers(shape: tuple[int, ...]) -> None:
    model = lenet_gn(Form(shape, 10))
    kinds = [type(layer) for layer in model if sum(1 for _ in layer.parameters())]
    assert kinds == [nn.Conv2d, nn.GroupNorm] * 2 + [nn.Linear] * 3
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize(("shape", "parameters"), [((1, 28, 28), 61_750), ((3, 32, 32), 62_050)])
def test_lenet_5_with_groups_of_three_and_four_channels(shape: tuple[int, ...], parameters: int) -> None:
    """61,706 of LeNet-5, as it is mostly built today, and 44 of the two norms."""
    model = lenet_gn(Form(shape, 10))
    assert sum(p.numel() for p in model.parameters()) == parameters
    norms = [layer for layer in model if isinstance(layer, nn.GroupNorm)]
    assert [(norm.num_groups, norm.num_channels) for norm in norms] == [(2, 6), (4, 16)]
