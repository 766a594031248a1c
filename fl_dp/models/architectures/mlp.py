"""A multilayer perceptron: linear layers with tanh between them, over all inputs, of any shape."""

import itertools
import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_numbers


def mlp(form: Form, widths: str = "64,64") -> nn.Module:
    """widths: of the hidden layers, "64,64". tanh, because a bounded activation keeps gradients small."""
    expect_numbers(form)
    sizes = [math.prod(form.input_shape), *_widths(widths)]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], form.outputs))


def _widths(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise ValueError(f"{text!r}: expected widths of hidden layers, such as 64,64")
    return [int(word) for word in words]


MODEL = Model(mlp, argument="WIDTHS", optional=True)
