"""Multinomial logistic regression: one linear layer over all inputs, of any shape."""

import math

from torch import nn

from fl_dp.models.model import Model


def linear(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Images are flattened."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))


MODEL = Model(linear)
