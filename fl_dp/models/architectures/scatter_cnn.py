"""The small CNNs of Tramèr and Boneh 2021 (arXiv 2011.11660) for scattering features, "ScatterNet + CNN"."""

from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.norm_linear import feature_norm
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_image


def scatter_cnn(form: Form, groups: str = "") -> nn.Module:
    """For features of depth 2 of images of 28x28 (MNIST, FashionMNIST) or 32x32 pixels (CIFAR10).

    groups: number of channel groups, each normalised together; see `feature_norm`.
    """
    channels, height, width = expect_image(form, 1)
    if (height, width) not in ((7, 7), (8, 8)):
        raise ValueError("it is made for scattering features, at depth 2, of images of 28x28 or 32x32 pixels")
    norm = feature_norm(channels, groups)
    if height == 8:
        return nn.Sequential(
            norm,
            nn.Conv2d(channels, 64, kernel_size=3, padding=1),  # (n, 64, 8, 8)
            nn.Tanh(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, kernel_size=3, padding=1),  # (n, 64, 4, 4)
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, form.outputs),
        )
    return nn.Sequential(
        norm,
        nn.Conv2d(channels, 16, kernel_size=3, stride=2, padding=1),  # (n, 16, 4, 4)
        nn.Tanh(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),  # (n, 32, 4, 4)
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.Tanh(),
        nn.Linear(32, form.outputs),
    )


MODEL = Model(scatter_cnn, argument="GROUPS", optional=True)
