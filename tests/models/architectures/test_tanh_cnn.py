import pytest
import torch
from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.tanh_cnn import tanh_cnn
from fl_dp.models.build import build_model


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


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_weights_of_eight_layers_keep_images_apart(seed: int) -> None:
    """PyTorch's own first weights shrink what tells images apart more than a hundredfold."""
    model = build_model("tanh-cnn", Form((3, 32, 32), 10), seed)
    images = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) / 2
    with torch.no_grad():
        apart = [(images := layer(images)).std(0).mean() for layer in model]
    assert apart[-1] > apart[0] / 10
    assert all(not layer.bias.any() for layer in model if hasattr(layer, "bias"))
