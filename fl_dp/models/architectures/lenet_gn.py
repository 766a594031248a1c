"""LeNet-5 (LeCun et al. 1998) with a GroupNorm after each convolution."""

from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_square_image


def lenet_gn(form: Form) -> nn.Module:
    """Two 5x5 convolutions, three linear layers, tanh; for images of 28x28 or 32x32 pixels."""
    channels, side = expect_square_image(form, (28, 32))
    return nn.Sequential(
        nn.Conv2d(channels, 6, kernel_size=5, padding=(32 - side) // 2),  # (n, 6, 28, 28)
        nn.GroupNorm(2, 6),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),  # (n, 16, 10, 10)
        nn.GroupNorm(4, 16),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, form.outputs),
    )


MODEL = Model(lenet_gn)
