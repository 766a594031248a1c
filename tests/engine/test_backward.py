"""One backward pass: all uses of a parameter together, and none that the start-up check did not see."""

import pytest
import torch
from definition import per_example_grads, projected_losses, trainable
from structured import Called
from torch import Tensor, nn

from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.probe import probe
from fl_dp.engine.sum_error import Additions
from fl_dp.errors import ProbeError


class Twice(nn.Module):
    """A layer used on x and on half of its own output; `also` uses its bias once more."""

    def __init__(self, also: bool = False) -> None:
        super().__init__()
        self.layer, self.also = nn.Linear(6, 6).double(), also

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.layer(x).tanh())
        return y * self.layer.bias if self.also else y


def _kept(model: nn.Module, inputs: Tensor, axes: Axes | None = None):
    chooser = KernelChooser("ghost")
    kept = keep_gradients(projected_losses(model, inputs), trainable(model), axes, chooser)
    return kept, {row.parameter: row for row in chooser.rows}


def test_uses_of_one_matrix_are_one_use_with_more_positions_and_stay_a_ghost():
    """Were they added up instead, every per-example gradient would be held."""
    _, rows = _kept(Twice(), torch.randn(5, 3, 6, dtype=torch.float64))
    weight = rows["layer.weight"]
    assert (weight.layout, weight.T, weight.p, weight.d, weight.kernel) == ("outer", 2 * 3, 6, 6, "ghost")


def test_a_use_that_the_start_up_check_did_not_see_is_refused_by_name():
    """`also` is set after the check: whose the rows of the new use are, nobody knows."""
    model, inputs = Twice(), torch.randn(5, 6, dtype=torch.float64)
    axes = probe(model, inputs)
    model.also = True
    with pytest.raises(ProbeError, match=r"Mul \(parameter layer\.bias\) was not used in this way"):
        _kept(model, inputs, axes)
    assert _kept(model, inputs[:1], axes)[0]  # one example's rows are its own, wherever they are


def tripled() -> nn.Module:
    """A layer whose bias is a function of a parameter."""
    parameters = nn.ParameterDict({"weight": torch.randn(4, 6), "third": torch.randn(4)}).double()
    return Called(parameters, lambda m, x: nn.functional.linear(x, m["weight"], m["third"] * 3))


def test_a_gradient_that_the_way_back_replaces_is_nobody_elses():
    """The bias's gradient is the very output gradient that the weight's layout holds."""
    model, inputs = tripled(), torch.randn(5, 6, dtype=torch.float64)
    kept, rows = _kept(model, inputs, probe(model, inputs))
    assert rows["layer.weight"].kernel == "ghost"
    every = per_example_grads(model, inputs)
    for name in trainable(model):
        with torch.no_grad():
            found = kept[name].weighted_sum(torch.ones(5, dtype=torch.float64), Additions(5, wide=True))
        torch.testing.assert_close(found.view_as(every[0][name]), sum(one[name] for one in every))


class Blocked(torch.autograd.Function):
    """Lets no gradient through: the uses below it are in the graph, and are never reported."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


def test_a_use_that_no_gradient_reaches_does_not_hold_up_the_others():
    layer, x = nn.Linear(6, 3).double(), torch.randn(5, 6, dtype=torch.float64)
    chooser = KernelChooser()
    losses = (layer(x) + Blocked.apply(layer(2 * x))).sin().sum(1)
    kept = keep_gradients(losses, trainable(layer), None, chooser, retain_graph=True)
    for name, parameter in trainable(layer).items():
        grads = [torch.autograd.grad(loss, parameter, retain_graph=True)[0] for loss in losses]
        expected = torch.stack(grads).flatten(1).square().sum(1)
        torch.testing.assert_close(kept[name].norm_squared, expected)
