import pytest
from torch import nn

from fl_dp.models.architectures.tanh_cnn import tanh_cnn


@pytest.mark.parametrize(("shape", "published"), [((1, 28, 28), 26_010), ((3, 32, 32), 550_570)])
def test_as_many_parameters_as_published(shape: tuple[int, ...], published: int) -> None:
    assert sum(p.numel() for p in tanh_cnn(shape, num_classes=10).parameters()) == published


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_every_activation_is_bounded(shape: tuple[int, ...]) -> None:
    kinds = {type(layer) for layer in tanh_cnn(shape, num_classes=10)}
    assert kinds == {nn.Conv2d, nn.Tanh, nn.MaxPool2d, nn.Flatten, nn.Linear}
