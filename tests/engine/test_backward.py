"""One backward pass: all uses of a parameter together, and none that the start-up check did not see."""

import pytest
import torch
from definition import per_example_grads, projected_losses, trainable
from torch import Tensor, nn

from fl_dp.engine import backward
from fl_dp.engine.backward import Axes, keep_gradients
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.probe import probe
from fl_dp.engine.tracing.capture import UseKey
from fl_dp.errors import ProbeError


class Twice(nn.Module):
    """A layer used on x and on half of its own output; `also` uses its bias once more."""

    def __init__(self, also: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.also = nn.Linear(6, 6).double(), also

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.layer(x).tanh())
        return y * self.layer.bias if self.also else y


def _kept(model: nn.Module, inputs: Tensor, axes: Axes | None = None, mode: str = "ghost"):
    chooser = KernelChooser(mode)
    kept = keep_gradients(projected_losses(model, inputs), trainable(model), axes, chooser)
    return kept, {row.parameter: row for row in chooser.rows}


@pytest.mark.parametrize("mode", ["ghost", "instantiate"])
@pytest.mark.parametrize("also", [False, True])
def test_norms_and_sums_are_those_of_all_uses_together(mode, also):
    model, inputs = Twice(also), torch.randn(5, 3, 6, dtype=torch.float64)
    axes = probe(model, inputs)
    kept, _ = _kept(model, inputs, axes, mode)
    factors = torch.rand(5, dtype=torch.float64)
    for i, name in enumerate(trainable(model)):
        grads = torch.stack([one[i] for one in per_example_grads(model, inputs)])
        torch.testing.assert_close(kept[name].norm_squared, grads.flatten(1).square().sum(1))
        expected = torch.tensordot(factors, grads, dims=1)
        with torch.no_grad():
            found = kept[name].weighted_sum(factors, None).view_as(expected)
            some = kept[name].weighted_sum(factors, torch.tensor([0, 3])).view_as(expected)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(some, factors[0] * grads[0] + factors[3] * grads[3])


def test_uses_of_one_matrix_are_one_use_with_more_positions_and_stay_a_ghost():
    """Were they added up instead, every per-example gradient would be held."""
    _, rows = _kept(Twice(), torch.randn(5, 3, 6, dtype=torch.float64))
    weight = rows["layer.weight"]
    assert (weight.layout, weight.T, weight.p, weight.d, weight.kernel) == ("outer", 2 * 3, 6, 6, "ghost")


def test_a_parameter_that_no_loss_depends_on_is_not_kept():
    model = Twice()
    model.register_parameter("spare", nn.Parameter(torch.ones(4)))
    assert set(_kept(model, torch.randn(5, 6, dtype=torch.float64))[0]) == {"layer.weight", "layer.bias"}


def test_a_use_that_the_start_up_check_did_not_see_is_refused_by_name():
    """`also` is set after the check: whose the rows of the new use are, nobody knows."""
    model, inputs = Twice(), torch.randn(5, 6, dtype=torch.float64)
    axes = probe(model, inputs)
    model.also = True
    with pytest.raises(ProbeError, match=r"Mul \(parameter layer\.bias\) was not used in this way"):
        _kept(model, inputs, axes)
    assert _kept(model, inputs[:1], axes)[0]  # one example's rows are its own, wherever they are


class Tripled(nn.Module):
    """A layer whose bias is a function of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 6, dtype=torch.float64))
        self.third = nn.Parameter(torch.randn(4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.third * 3)


def test_a_gradient_that_the_way_back_replaces_is_nobody_elses():
    """The bias's gradient is the very output gradient that the weight's layout holds."""
    model, inputs = Tripled(), torch.randn(5, 6, dtype=torch.float64)
    kept, rows = _kept(model, inputs, probe(model, inputs))
    assert rows["weight"].kernel == "ghost"
    for name, grads in zip(
        trainable(model), zip(*per_example_grads(model, inputs), strict=True), strict=True
    ):
        expected = torch.stack(grads).sum(0)
        with torch.no_grad():
            found = kept[name].weighted_sum(torch.ones(5, dtype=torch.float64), None)
        torch.testing.assert_close(found.view_as(expected), expected)


def test_only_the_memory_that_the_engine_has_made_is_used_again(monkeypatch):
    model, seen = Tripled(), {}
    whole = backward.pull_back

    def spy(edge, grads, parameters, names, *, overwrite):
        seen[names[0]] = overwrite
        return whole(edge, grads, parameters, names, overwrite=overwrite)

    monkeypatch.setattr(backward, "pull_back", spy)
    monkeypatch.setattr(
        Tripled, "forward", lambda self, x: nn.functional.linear(x, self.weight.tanh(), self.third * 3)
    )
    inputs = torch.randn(5, 6, dtype=torch.float64)
    _kept(model, inputs, probe(model, inputs))
    assert seen == {"weight": True, "third": False}


class Blocked(torch.autograd.Function):
    """Lets no gradient through: the uses below it are in the graph, and are never reported."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


def test_a_use_that_no_gradient_reaches_does_not_hold_up_the_others():
    torch.manual_seed(0)
    layer, x = nn.Linear(6, 3).double(), torch.randn(5, 6, dtype=torch.float64)
    chooser = KernelChooser()
    losses = (layer(x) + Blocked.apply(layer(2 * x))).sin().sum(1)
    kept = keep_gradients(losses, trainable(layer), None, chooser, retain_graph=True)
    for name, parameter in trainable(layer).items():
        grads = [torch.autograd.grad(loss, parameter, retain_graph=True)[0] for loss in losses]
        expected = torch.stack(grads).flatten(1).square().sum(1)
        torch.testing.assert_close(kept[name].norm_squared, expected)


def test_axes_that_report_know_what_those_that_raise_have_checked():
    axes = Axes({}, fallback=frozenset({UseKey("MmBackward0", 1, ("one",))}))
    axes.owners.known.add(7)
    told: list[ProbeError] = []
    reporting = axes.reporting(told.append)
    assert (reporting, reporting.owners.known) == (axes, axes.owners.known)
    assert reporting.owners.report == told.append
    assert axes.owners.report is None
