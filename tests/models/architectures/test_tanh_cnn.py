import pytest
import torch
from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.tanh_cnn import tanh_cnn


@pytest.mark.parametrize(("shape", "published"), [((1, 28, 28), 26_010), ((3, 32, 32), 550_570)])
def test_as_many_parameters_as_published(shape: tuple[int, ...], published: int) -> None:
    assert sum(p.numel() for p in tanh_cnn(Form(shape, 10)).parameters()) == published


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_every_activation_is_bounded(shape: tuple[int, ...]) -> None:
    kinds = {type(layer) for layer in tanh_cnn(Form(shape, 10))}
    assert kinds == {nn.Conv2d, nn.Tanh, nn.MaxPool2d, nn.Flatten, nn.Linear}


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((1, 28, 28), [14, 13, 5, 4]),
        ((3, 32, 32), [32, 32, 16, 16, 16, 8, 8, 8, 4]),
    ],
)
def test_images_shrink_as_published(shape: tuple[int, ...], sides: list[int]) -> None:
    """Another stride or pooling may fit as well, with as many parameters."""
    x, seen = torch.zeros(1, *shape), []
    for layer in tanh_cnn(Form(shape, 10)):
        x = layer(x)
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            seen.append(x.shape[-1])
    assert seen == sides


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_weights_lie_channels_last(shape: tuple[int, ...]) -> None:
    weights = [layer.weight for layer in tanh_cnn(Form(shape, 10)) if isinstance(layer, nn.Conv2d)]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
