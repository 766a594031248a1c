"""One linear layer after a group normalisation, for fixed features such as the scattering transform's.

Tramèr and Boneh 2021 (arXiv 2011.11660), "ScatterNet + linear". Each record is normalised by its own numbers:
mean and variance over a data set would be a query on private records.
"""

import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.expect import expect_image
from fl_dp.models.feature_norm import feature_norm
from fl_dp.models.model import Model


def norm_linear(form: Form, groups: str = "") -> nn.Module:
    """groups: number of channel groups, each normalised together; see `feature_norm`."""
    channels, height, width = expect_image(form, 1)
    inputs = math.prod((channels, height, width))
    return nn.Sequential(feature_norm(channels, groups), nn.Flatten(), nn.Linear(inputs, form.outputs))


MODEL = Model(norm_linear, argument="GROUPS", optional=True)
