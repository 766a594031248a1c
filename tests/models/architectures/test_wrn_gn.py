"""The wide residual network: as published, and its clipped sums are those of the definition."""

import pytest
import torch
import torch.nn.functional as F
from structured import assert_equals_definition, call, exact
from torch import nn

from fl_dp.engine.probe import probe
from fl_dp.form import Form
from fl_dp.models.architectures.wrn_gn import StandardisedConv2d, wrn_gn

COLOUR = Form((3, 32, 32), 10)


def test_as_many_parameters_as_published() -> None:
    """2.7 million (De et al. 2022, section 3), and layer by layer those of the paper's code."""
    count = 0
    for fan_in, width in [
        (27, 16),
        (16 * 9, 64),
        (64 * 9, 64),
        (64 * 9, 64),
        (64 * 9, 64),
        (16, 64),
        (64 * 9, 128),
        (128 * 9, 128),
        (128 * 9, 128),
        (128 * 9, 128),
        (64, 128),
        (128 * 9, 256),
        (256 * 9, 256),
        (256 * 9, 256),
        (256 * 9, 256),
        (128, 256),
    ]:
        count += fan_in * width + 2 * width  # gain and bias
    norms = [16, 16, 64, 64, 64, 64, 64, 128, 128, 128, 128, 128, 256, 256, 256, 256]
    count += sum(2 * channels for channels in norms)
    count += 256 * 10 + 10
    assert sum(one.numel() for one in wrn_gn(COLOUR).parameters()) == count == 2_753_818


def test_layers_and_sides() -> None:
    model, seen = wrn_gn(COLOUR, "10x1"), []
    for module in model.modules():
        if isinstance(module, nn.GroupNorm):
            assert module.num_groups == 16
    convolutions = [one for one in model.modules() if isinstance(one, nn.Conv2d)]
    assert {type(one) for one in convolutions} == {StandardisedConv2d}
    assert len([one for one in convolutions if one.kernel_size == (3, 3)]) == 7
    x = torch.randn(2, 3, 32, 32)
    for layer in model:
        x = layer(x)
        seen.append(tuple(x.shape))
    assert [shape[1:] for shape in seen[:4]] == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]
    assert seen[-1] == (2, 10)


def test_a_standardised_convolution_is_its_formula() -> None:
    torch.manual_seed(1)
    layer = StandardisedConv2d(3, 5, side=3).double()
    with torch.no_grad():
        layer.gain.normal_()
        assert layer.bias is not None
        layer.bias.normal_()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    rows = []
    for w, gain in zip(layer.weight, layer.gain, strict=True):
        rows.append((w - w.mean()) * gain / (w.numel() * w.var(correction=0) + 1e-4).sqrt())
    expected = F.conv2d(x, torch.stack(rows), layer.bias, padding=1)
    for layout in (torch.contiguous_format, torch.channels_last):
        found = layer.to(memory_format=layout)(x)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_weights_that_are_all_equal_divide_by_no_zero() -> None:
    layer = StandardisedConv2d(2, 3, side=3)
    nn.init.constant_(layer.weight, 0.5)
    out = layer(torch.randn(1, 2, 6, 6))
    out.sum().backward()
    assert out.isfinite().all()
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("size", ["16", "15x4", "16x0", "16x21", "4x1", "106x1", "16x4x1", "-16x4", "16x²"])
def test_other_sizes_are_refused(size: str) -> None:
    with pytest.raises(ValueError, match="expected DEPTHxWIDTH"):
        wrn_gn(COLOUR, size)
    with pytest.raises(ValueError, match="at least 16x16 pixels"):
        wrn_gn(Form((1, 8, 8), 10))


def test_the_engine_is_exact_on_standardised_weights_without_its_fallback() -> None:
    with exact():
        block = nn.Sequential(
            StandardisedConv2d(2, 4, side=3),
            nn.ReLU(),
            nn.GroupNorm(2, 4),
            StandardisedConv2d(4, 3, side=3, stride=2),
            nn.Flatten(),
        )
        assert not probe(block, torch.randn(3, 2, 6, 6)).fallback
        assert_equals_definition(block, lambda n: call(torch.randn(n, 2, 6, 6)))
