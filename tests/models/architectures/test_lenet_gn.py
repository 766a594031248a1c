import pytest
from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.lenet_gn import lenet_gn


@pytest.mark.parametrize(("shape", "parameters"), [((1, 28, 28), 61_750), ((3, 32, 32), 62_050)])
def test_lenet_5_with_groups_of_three_and_four_channels(shape: tuple[int, ...], parameters: int) -> None:
    """61,706 of LeNet-5, as it is mostly built today, and 44 of the two norms."""
    model = lenet_gn(Form(shape, 10))
    assert sum(p.numel() for p in model.parameters()) == parameters
    kinds = [type(layer) for layer in model if sum(1 for _ in layer.parameters())]
    assert kinds == [nn.Conv2d, nn.GroupNorm] * 2 + [nn.Linear] * 3
    norms = [layer for layer in model if isinstance(layer, nn.GroupNorm)]
    assert [(norm.num_groups, norm.num_channels) for norm in norms] == [(2, 6), (4, 16)]
