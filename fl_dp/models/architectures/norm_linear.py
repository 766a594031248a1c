"""One linear layer after a group normalisation, for fixed features such as the scattering transform's.

Tramèr and Boneh 2021 (arXiv 2011.11660), "ScatterNet + linear". Each record is normalised by its own numbers:
mean and variance over a data set would be a query on private records.
"""

import math

from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_image

_GROUPS = 27  # what Tramèr and Boneh 2021 chose for the 81 channels of FashionMNIST
_LEAST_CHANNELS = 3  # of a group; one channel alone would lose which features are strong


def feature_norm(channels: int, groups: str = "") -> nn.GroupNorm:
    """groups: a number that divides the channels; empty: the largest up to 27, with at least 3 channels each.

    So 27 for the 81 or 243 channels of a scattering transform of depth 2. ValueError for another text.
    """
    dividing = [count for count in range(1, channels + 1) if channels % count == 0]
    if not groups:
        few = min(_GROUPS, channels // _LEAST_CHANNELS)
        return nn.GroupNorm(max([1, *(count for count in dividing if count <= few)]), channels, affine=False)
    if groups not in map(str, dividing):
        raise ValueError(f"{groups!r}: expected a number of groups that divides {channels} channels")
    return nn.GroupNorm(int(groups), channels, affine=False)


def norm_linear(form: Form, groups: str = "") -> nn.Module:
    """groups: number of channel groups, each normalised together; see `feature_norm`."""
    channels, height, width = expect_image(form, 1)
    inputs = math.prod((channels, height, width))
    return nn.Sequential(feature_norm(channels, groups), nn.Flatten(), nn.Linear(inputs, form.outputs))


MODEL = Model(norm_linear, argument="GROUPS", optional=True)
