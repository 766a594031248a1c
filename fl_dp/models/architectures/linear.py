"""Logistic or linear regression: one linear layer over all inputs, of any shape."""

import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_numbers


def linear(form: Form) -> nn.Module:
    """Images are flattened."""
    expect_numbers(form)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(form.input_shape), form.outputs))


MODEL = Model(linear)
