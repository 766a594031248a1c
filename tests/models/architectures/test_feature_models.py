"""Models for scattering features: those of the paper, and their clipped sums are those of the definition."""

import pytest
import torch
from structured import assert_equals_definition, call, exact
from torch import nn

from fl_dp.form import Form
from fl_dp.models.architectures.norm_linear import norm_linear
from fl_dp.models.architectures.scatter_cnn import scatter_cnn

GREY, COLOUR = Form((81, 7, 7), 10), Form((243, 8, 8), 10)


@pytest.mark.parametrize(
    ("make", "form", "published"),
    [
        (norm_linear, GREY, 81 * 49 * 10 + 10),
        (norm_linear, COLOUR, 243 * 64 * 10 + 10),  # 155,530
        # the sum over the layers of the paper's code
        (scatter_cnn, GREY, (81 * 9 * 16 + 16) + (16 * 9 * 32 + 32) + (512 * 32 + 32) + (32 * 10 + 10)),
        (scatter_cnn, COLOUR, (243 * 9 * 64 + 64) + (64 * 9 * 64 + 64) + (64 * 16 * 10 + 10)),
    ],
)
def test_the_papers_models(make, form: Form, published: int) -> None:
    model = make(form)
    assert sum(one.numel() for one in model.parameters()) == published
    assert isinstance(model[0], nn.GroupNorm)
    assert (model[0].num_groups, model[0].affine) == (27, False)
    assert make(form, "9")[0].num_groups == 9


@pytest.mark.parametrize(("form", "sides"), [(GREY, [4, 4]), (COLOUR, [8, 4, 4])])
def test_images_shrink_as_published(form: Form, sides: list[int]) -> None:
    x, seen = torch.zeros(1, *form.input_shape), []
    for layer in scatter_cnn(form):
        x = layer(x)
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            seen.append(x.shape[-1])
    assert seen == sides


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (norm_linear, Form((12, 3, 2), 4)),
        (scatter_cnn, Form((9, 7, 7), 3)),
        (scatter_cnn, Form((9, 8, 8), 3)),
    ],
)
def test_clipped_sums_are_those_of_the_definition(make, form: Form) -> None:
    with exact():
        model = make(form)
        lengths = torch.linspace(0.01, 30.0, 7).view(7, 1, 1, 1)
        assert_equals_definition(model, lambda n: call((torch.randn(7, *form.input_shape) * lengths)[:n]))
