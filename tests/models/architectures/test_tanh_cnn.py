import pytest
import torch
from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.tanh_cnn import tanh_cnn
from fl_dp.models.build import build_model


@pytest.mark.parametrize(
    ("shape", "published", "sides"),
    [((1, 28, 28), 26_010, [14, 13, 5, 4]), ((3, 32, 32), 550_570, [32, 32, 16, 16, 16, 8, 8, 8, 4])],
)
def test_it_is_the_published_model(shape: tuple[int, ...], published: int, sides: list[int]) -> None:
    """Another stride or pooling may fit as well, with as many parameters. Every activation is bounded."""
    model = tanh_cnn(Form(shape, 10))
    assert sum(p.numel() for p in model.parameters()) == published
    assert {type(layer) for layer in model} == {nn.Conv2d, nn.Tanh, nn.MaxPool2d, nn.Flatten, nn.Linear}
    x, seen = torch.zeros(1, *shape), []
    for layer in model:
        x = layer(x)
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            seen.append(x.shape[-1])
        if isinstance(layer, nn.Conv2d):
            assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    assert seen == sides


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_weights_of_eight_layers_keep_images_apart(seed: int) -> None:
    """PyTorch's own first weights shrink what tells images apart more than a hundredfold."""
    model = build_model("tanh-cnn", Form((3, 32, 32), 10), seed)
    images = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) / 2
    with torch.no_grad():
        apart = [(images := layer(images)).std(0).mean() for layer in model]
    assert apart[-1] > apart[0] / 10
    assert all(not layer.bias.any() for layer in model if hasattr(layer, "bias"))
