"""One hidden layer of a width that users name."""

import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model


def perceptron(form: Form, width: str) -> nn.Module:
    hidden = nn.Linear(math.prod(form.input_shape), int(width))
    return nn.Sequential(nn.Flatten(), hidden, nn.Tanh(), nn.Linear(int(width), form.outputs))


MODEL = Model(perceptron, argument="WIDTH")
