"""The tanh CNNs of Papernot, Thakurta, Song, Chien and Erlingsson 2020 (arXiv 2007.14191)."""

import torch
from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_square_image


def tanh_cnn(form: Form) -> nn.Module:
    """The paper's network for 28x28 images (26,010 parameters: MNIST, FashionMNIST) or for 32x32 images
    (550,570 parameters: CIFAR10).

    tanh is the tempered sigmoid s / (1 + exp(-T x)) - o with s = T = 2, o = 1: a bounded activation keeps
    gradients small, so that clipping cuts off less.
    """
    channels, side = expect_square_image(form, (28, 32))
    make = _for_28x28 if side == 28 else _for_32x32
    # channels last: on CPUs, max pooling then handles all channels of a pixel at once
    return make(channels, form.outputs).to(memory_format=torch.channels_last)


def _for_28x28(channels: int, num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 16, kernel_size=8, stride=2, padding=3),  # (n, 16, 14, 14)
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, kernel_size=4, stride=2),  # (n, 32, 5, 5)
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.Tanh(),
        nn.Linear(32, num_classes),
    )


def _for_32x32(channels: int, num_classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width in (32, 64, 128):  # each block halves the side: 16, 8, 4
        layers += [
            nn.Conv2d(channels, width, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.Conv2d(width, width, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.MaxPool2d(2),
        ]
        channels = width
    model = nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(128 * 4 * 4, 128),
        nn.Tanh(),
        nn.Linear(128, num_classes),
    )
    model.apply(_start_by_glorot)
    return model


def _start_by_glorot(layer: nn.Module) -> None:
    """Initialise weights after Glorot, Bengio 2010, and biases to zero.

    With PyTorch's defaults, outputs differ between images by less than a hundredth as much as those of the
    first layer. Trained with the noise of epsilon 3 they did worse: benchmarks/README.md, "Accuracy".
    """
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)


MODEL = Model(tanh_cnn)
