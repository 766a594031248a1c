"""Mistakes of Opacus; where it is right, both clip alike (tests/benchmarks/test_steps.py)."""

from collections.abc import Mapping

import pytest
import torch
from definition import clipped_by_engine, length, projected_losses, trainable
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
from torch import Tensor, nn

# Of Opacus, for a first layer, whose input needs no gradient.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")

MODES = ("mixed", "ghost", "instantiate")


def clipped_by_opacus_hooks(model: nn.Module, losses_of, max_grad_norm: float) -> Mapping[str, Tensor]:
    parameters = trainable(model)
    wrapped = GradSampleModule(model, loss_reduction="sum")
    optimizer = DPOptimizer(_sgd(parameters), **_settings(max_grad_norm))
    losses_of(wrapped).sum().backward()
    optimizer.clip_and_accumulate()
    return {name: p.summed_grad for name, p in parameters.items()}


def clipped_by_opacus_ghost(model: nn.Module, losses_of, max_grad_norm: float) -> Mapping[str, Tensor]:
    parameters = trainable(model)
    wrapped = GradSampleModuleFastGradientClipping(
        model, loss_reduction="sum", max_grad_norm=max_grad_norm, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(_sgd(parameters), **_settings(max_grad_norm))
    DPTensorFastGradientClipping(wrapped, optimizer, losses_of(wrapped), "sum").backward()
    return {name: p.grad for name, p in parameters.items()}


def _sgd(parameters: Mapping[str, Tensor]) -> torch.optim.SGD:
    return torch.optim.SGD(parameters.values(), lr=1.0)


def _settings(max_grad_norm: float) -> dict[str, object]:
    return {
        "max_grad_norm": max_grad_norm,
        "noise_multiplier": 0.0,
        "expected_batch_size": None,
        "loss_reduction": "sum",
    }


def test_opacus_ghost_clipping_lets_through_a_gradient_whose_terms_cancel_in_float32():
    """Its Gram matrices round this gradient's length, 10,000, to zero (docs/decisions/0002)."""
    bound = 1e-3
    inputs = torch.tensor([[[1e4, 1.0], [1e4, 1.0]]])
    weights = torch.tensor([[1.0], [-1.0 - 1e-4]])
    model = nn.Linear(2, 1, bias=False)

    def losses_of(m: nn.Module, x: Tensor = inputs) -> Tensor:
        return (m(x) * weights * 1e4).sum((1, 2))

    for mode in MODES:
        ours = clipped_by_engine(model, inputs, bound, mode, loss=losses_of).grads
        assert length(ours) <= bound * (1 + 1e-3)
    assert length(clipped_by_opacus_ghost(model, losses_of, bound)) > 1e6 * bound


def test_opacus_gets_convolutions_of_channels_last_models_wrong():
    """Its patches take the input's strides for those of channels that come first; ours do not care."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 3, 2)).to(memory_format=torch.channels_last)
    inputs = torch.randn(5, 3, 8, 8)

    def losses_of(m: nn.Module) -> Tensor:
        return projected_losses(m, inputs)

    ours = {mode: clipped_by_engine(model, inputs, 0.3, mode).grads for mode in MODES}
    for grads in ours.values():
        torch.testing.assert_close(
            grads["1.weight"], ours["ghost"]["1.weight"], rtol=1e-3, atol=1e-5, check_dtype=False
        )
    theirs = clipped_by_opacus_hooks(model, losses_of, 0.3)["1.weight"]
    assert (theirs - ours["mixed"]["1.weight"]).norm() > 0.1 * theirs.norm()
