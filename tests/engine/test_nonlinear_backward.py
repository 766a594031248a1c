"""Backward functions that clamp or normalise are taken if each example's rows stay its own, else refused."""

import pytest
import torch
from attached import attached, without_noise
from definition import assert_equal, clipped_by_definition, clipped_by_engine, projected_losses
from structured import Called
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import rnn

from fl_dp.engine.probe import probe
from fl_dp.engine.tracing import ownership
from fl_dp.engine.tracing.ownership import _patterns
from fl_dp.errors import ProbeError


class Sign(torch.autograd.Function):
    """A straight-through estimator whose gradient is clamped."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.1, 0.1) * (ctx.saved_tensors[0].abs() < 1)


class UnitGrad(torch.autograd.Function):
    """Each row's gradient gets the length 1. There is no epsilon: zero becomes 0 / 0."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad / grad.norm(dim=-1, keepdim=True)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -0.3 * grad


def hooked(change):
    """A layer that changes the gradient of what passes through it."""

    def run(_: nn.Module, x: Tensor) -> Tensor:
        y = x * 1
        if y.requires_grad:
            y.register_hook(change)
        return y

    return Called(nn.Identity(), run)


def with_layer(layer: nn.Module, features: int = 6) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(features, 5), layer, nn.Tanh(), nn.Linear(5, 3)).double()


def function(one) -> nn.Module:
    return Called(nn.Identity(), lambda _, x: one.apply(x))


def clipped_per_row() -> nn.Module:
    model = with_layer(nn.Tanh())

    def hook(_, grads, __):
        return tuple(g * (0.01 / g.norm(dim=1, keepdim=True)).clamp(max=1) for g in grads)

    model[1].register_full_backward_hook(hook)
    return model


def rounded_input() -> nn.Module:
    """The usual one-liner, with a hook, on the input of a trainable layer."""

    def run(layers, x):
        h = layers[0](x)
        rounded = h + (h.round() - h).detach()
        if rounded.requires_grad:
            rounded.register_hook(lambda g: g.clamp(-0.05, 0.05))
        return layers[1](rounded)

    torch.manual_seed(0)
    return Called(nn.ModuleList([nn.Linear(6, 5), nn.Linear(5, 3)]).double(), run)


def of_weights(change) -> nn.Module:
    """Quantised weights: the function lies between the parameter and its use."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 3).double()
    return Called(layer, lambda m, x: F.linear(x, change(m.weight), m.bias))


class Scaled(torch.autograd.Function):
    """A use without a rule: only `masked_grads` can tell the examples apart."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = grad.clamp(-0.1, 0.1)
        return grad * weight, (grad * x).sum(0)


class ScaledAndSummed(Scaled):
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad.clamp(-0.1, 0.1) * weight, (grad * x).sum(0).clamp(-0.2, 0.2)


class Shifted(Scaled):
    """The gradient of zero is not zero: each example's gradient would hold all others' x."""

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, ((grad + 1) * x).sum(0)


def scaled(one) -> nn.Module:
    layer = Called(nn.Linear(5, 1, bias=False), lambda m, x: one.apply(x, m.weight[0] * 1))
    return with_layer(layer)


def packed() -> nn.Module:
    def run(m, x):
        lengths = torch.full((len(x),), x.shape[1])
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        data = packed.data * 1
        output, _ = m[0](packed._replace(data=data))
        hidden = output.data * 1
        if hidden.requires_grad:
            hidden.register_hook(lambda g: g.clamp(-0.02, 0.02))
        return m[1](rnn.pad_packed_sequence(output._replace(data=hidden), batch_first=True)[0])

    torch.manual_seed(0)
    return Called(nn.ModuleList([nn.LSTM(6, 4, batch_first=True), nn.Linear(4, 2)]).double(), run)


TAKEN = {
    "a clamped straight-through estimator": lambda: with_layer(function(Sign)),
    "one on a trainable layer's input": rounded_input,
    "a tensor hook that clamps": lambda: with_layer(hooked(lambda g: g.clamp(-0.1, 0.1))),
    "a module's hook that clips each row": clipped_per_row,
    "rows of length 1": lambda: with_layer(hooked(lambda g: F.normalize(g, dim=-1))),
    "rows of length 1, zero to NaN": lambda: with_layer(function(UnitGrad)),
    "reversal": lambda: with_layer(function(Reversed)),
    "only the sign": lambda: with_layer(hooked(torch.sign)),
    "a clamp that is seldom reached": lambda: with_layer(hooked(lambda g: g.clamp(-100, 100))),
    "quantised weights": lambda: of_weights(Sign.apply),
    "an operator without a rule": lambda: scaled(Scaled),
    "one that clamps the sum": lambda: scaled(ScaledAndSummed),
}
ROWS = torch.randn(16, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
SEQUENCES = ROWS.view(16, 1, 6) * torch.linspace(-1, 1, 4, dtype=torch.float64).view(4, 1)


@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("case", TAKEN)
def test_what_is_each_example_s_own_is_taken_and_equals_one_backward_pass_per_example(case, size):
    model, inputs = TAKEN[case](), ROWS[:size]
    axes = probe(model, inputs)
    for bound in (0.05, 1e9):
        found = clipped_by_engine(model, inputs, bound, axes=axes)
        assert_equal(found.grads, clipped_by_definition(model, inputs, bound))


def test_so_is_a_model_of_packed_sequences():
    model = packed()
    axes = probe(model, SEQUENCES)
    assert axes.by_loss
    found = clipped_by_engine(model, SEQUENCES, 0.05, axes=axes)
    assert_equal(found.grads, clipped_by_definition(model, SEQUENCES, 0.05))


@pytest.mark.parametrize("case", TAKEN)
def test_a_private_step_is_that_of_the_definition(case):
    model = TAKEN[case]()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    without_noise(model).attach(optimizer)
    for _ in range(2):  # the second batch of a known graph is checked by fewer passes
        expected = clipped_by_definition(model, ROWS, 0.1)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.step(loss=projected_losses(model, ROWS))
        moved = {name: 10 * (before[name] - p.detach()) for name, p in model.named_parameters()}
        assert_equal(moved, expected, within=1e-6)


def first(g: Tensor) -> Tensor:
    return F.normalize(g, dim=-1)


MIXING = {
    "a norm over the batch": lambda g: g / g.norm(),
    "clipping by it": lambda g: g * (0.01 / g.norm()).clamp(max=1),
    "a largest number over the batch": lambda g: g.clamp(-1, 1) / g.abs().max(),
    "the mean of the batch": lambda g: g - g.mean(0),
    "the mean of clamped rows": lambda g: g.clamp(-1e-3, 1e-3) - g.clamp(-1e-3, 1e-3).mean(0),
    "the mean of rows of one length": lambda g: first(g) - first(g).mean(0),
    "a sort": lambda g: g.sort(0).values,
    "the number of clipped rows": lambda g: g.clamp(-0.1, 0.1) / (1 + (g.abs() > 0.1).any(-1).sum()),
}


@pytest.mark.parametrize("case", MIXING)
def test_what_mixes_examples_is_refused_and_within_each_example_it_is_taken(case):
    model = with_layer(hooked(MIXING[case]))
    for look in (lambda: probe(model, ROWS), lambda: stepped(model)):
        with pytest.raises(ProbeError, match=r"a hook or a backward\s+function"):
            look()


def stepped(model: nn.Module, losses=projected_losses, **options) -> None:
    _, optimizer, _ = attached(model, **options)
    optimizer.step(loss=losses(model, ROWS))


def test_the_way_on_works():
    """As the words say it."""
    stepped(with_layer(hooked(lambda g: g / g.flatten(1).norm(dim=1).view(-1, 1))))


MIXED_LOSSES = {
    "a mean": lambda m, x: m(x).sin().mean().expand(len(x)),
    "contrastive": lambda m, x: F.cross_entropy(m(x) @ m(x).T, torch.arange(len(x)), reduction="none"),
    "of the next example": lambda m, x: m(x).roll(1, 0).sin().sum(1),
    "a share of the sum": lambda m, x: m(x).exp().sum(1) / m(x).exp().sum(),
}


@pytest.mark.parametrize("layer", [Sign, UnitGrad])
@pytest.mark.parametrize("case", MIXED_LOSSES)
def test_losses_that_mix_are_still_refused_under_such_layers(case, layer):
    with pytest.raises(ProbeError, match="the losses mix examples"):
        stepped(with_layer(function(layer)), MIXED_LOSSES[case])


def test_where_zero_is_not_kept_an_operator_without_a_rule_is_refused_by_name():
    with pytest.raises(ProbeError, match="depends on another example") as error:
        probe(scaled(Shifted), ROWS)
    assert "1.layer.weight" in str(error.value)


@pytest.mark.parametrize(("case", "reports"), [("own", 0), ("mixing", 2)])
def test_steps_that_are_paid_for_only_report(case, reports):
    """The second batch may mix again: a Python function may move rows in each."""
    told: list[ProbeError] = []
    model = with_layer(function(Sign))
    axes = probe(model, ROWS).reporting(told.append)
    loss = projected_losses if case == "own" else MIXED_LOSSES["a mean"]
    for _ in range(2):
        clipped_by_engine(model, ROWS, 0.1, axes=axes, loss=loss)
    assert len(told) == reports


@pytest.mark.parametrize("number", [2, 3, 17, 64])
def test_every_two_examples_are_told_apart_by_each_weight(number):
    patterns = torch.stack(list(_patterns(number, thorough=True)))
    for weight in (-(2.0**10), -(2.0**-10)):
        own, other = (patterns == 1.0).double(), (patterns == weight).double()
        apart = own.T @ other  # (i, j): the passes in which i has the weight 1, and j this one
        assert bool(((apart > 0) | torch.eye(number, dtype=torch.bool)).all())
    assert len(patterns) == 4 * (number - 1).bit_length()


def test_a_linear_model_takes_two_passes_more_in_its_first_batch_and_none_later(monkeypatch):
    passes: list[int] = []
    taken = ownership.output_grads
    monkeypatch.setattr(ownership, "output_grads", lambda *a, **k: (passes.append(1), taken(*a, **k)))
    model = with_layer(nn.Tanh())
    axes = probe(model, ROWS)
    passes.clear()
    clipped_by_engine(model, ROWS, 0.1, axes=axes)
    assert len(passes) == 2
    clipped_by_engine(model, ROWS, 0.1, axes=axes)
    assert len(passes) == 2
