"""A wide residual network without batch norm, as De et al. 2022 (arXiv 2204.13650) train CIFAR-10 privately.

Wide residual networks: Zagoruyko, Komodakis 2016 (arXiv 1605.07146). Group norms of 16 groups, after the
activations, replace batch norm, and the weights of convolutions are standardised.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_image

_GROUPS = 16
_EXPECTED = "expected DEPTHxWIDTH, a depth of 6 n + 4 layers from 10 to 100 and a width from 1 to 20: 16x4"


class StandardisedConv2d(nn.Conv2d):
    """A convolution with (w - mean) / sqrt(fan_in * variance + least) * gain, for each output channel.

    Weight standardisation (Qiao et al. 2019, arXiv 1903.10520), scaled as in Brock, De, Smith 2021 (arXiv
    2101.08692). A function of the weights alone: examples do not mix.
    """

    least = 1e-4  # avoids division by zero for constant weights

    def __init__(self, channels: int, width: int, *, side: int, stride: int = 1) -> None:
        super().__init__(channels, width, kernel_size=side, padding=side // 2, stride=stride)
        self.gain = nn.Parameter(torch.ones(width))
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")
        assert self.bias is not None
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, H, W) -> (n, width, H, W), H and W divided by the stride."""
        width, fan_in = len(self.weight), self.weight[0].numel()
        flat = self.weight.reshape(1, width, fan_in)  # a view unless the weight is channels last
        # Each channel is a group of its own. One operator, gain included: the engine takes each example's
        # gradient back through it.
        weight = F.group_norm(flat, width, self.gain / math.sqrt(fan_in), eps=self.least / fan_in)
        return F.conv2d(x, weight.view_as(self.weight), self.bias, self.stride, self.padding)


class _Block(nn.Module):
    """Two convolutions beside a skip connection, which has its own convolution if the shape changes."""

    def __init__(self, channels: int, width: int, stride: int, *, changes: bool) -> None:
        super().__init__()
        self.skip = _layer(channels, width, side=1, stride=stride) if changes else nn.Identity()
        self.first = _layer(channels, width, side=3, stride=stride)
        self.second = _layer(width, width, side=3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x)) + self.skip(x)
        return y


def wrn_gn(form: Form, size: str = "16x4") -> nn.Module:
    """size: depth, 6 n + 4 layers, and width, times 16, 32 and 64 channels. Images of at least 16x16."""
    channels, *_ = expect_image(form, least=16)
    depth, width = _numbers(size)
    parts: list[nn.Module] = [StandardisedConv2d(channels, 16, side=3)]
    before = 16
    for base, stride in ((16, 1), (32, 2), (64, 2)):
        for number in range((depth - 4) // 6):
            first = number == 0
            parts.append(_Block(before, base * width, stride if first else 1, changes=first))
            before = base * width
    head = nn.Linear(before, form.outputs)
    nn.init.kaiming_normal_(head.weight, nonlinearity="linear")
    nn.init.zeros_(head.bias)
    return nn.Sequential(*parts, nn.ReLU(), _norm(before), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def _layer(channels: int, width: int, *, side: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.ReLU(), _norm(channels), StandardisedConv2d(channels, width, side=side, stride=stride)
    )


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(_GROUPS, channels)


def _numbers(size: str) -> tuple[int, int]:
    words = size.split("x")
    if len(words) == 2 and all(word.isascii() and word.isdecimal() and len(word) < 4 for word in words):
        depth, width = map(int, words)
        if 10 <= depth <= 100 and (depth - 4) % 6 == 0 and 1 <= width <= 20:
            return depth, width
    raise ValueError(f"{size!r}: {_EXPECTED}")


MODEL = Model(wrn_gn, argument="DEPTHxWIDTH", optional=True)
