"""The graph of the losses is the record: no use of a parameter escapes it."""

import torch
from torch import nn

from fl_dp.engine.tracing.capture import UseKey, find_uses, output_grads


def test_only_the_lowest_use_is_the_frontier():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 4), nn.Linear(4, 2))
    uses = find_uses(model(torch.randn(3, 1, 6, 6)).sum(1), dict(model.named_parameters()))
    assert [use.frontier for use in uses] == [True, False, False]
    assert uses[0].node.name() == "ConvolutionBackward0"


def test_a_function_of_the_user_may_remember_a_parameter():
    """Its node is not the parameter's, whatever its attributes are called."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.variable = weight
            return x * weight

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.variable, grad.sum(0)

    weight = torch.randn(4, requires_grad=True)
    losses = Scaled.apply(torch.randn(5, 4), weight).sum(1)
    (use,) = find_uses(losses, {"weight": weight})
    assert use.node.name() == "ScaledBackward"
    assert use.keys == (UseKey("ScaledBackward", 1, ("weight",)),)


def test_deep_graphs_do_not_exhaust_the_stack():
    model = nn.Linear(2, 2)
    y = model(torch.randn(3, 2))
    for _ in range(5000):
        y = y + 1
    assert len(find_uses(y.sum(1), dict(model.named_parameters()))) == 1


def test_lists_of_any_length_are_used_in_one_way():
    token = torch.randn(1, 4, requires_grad=True)
    for n in (2, 5):
        (use,) = find_uses(torch.cat([torch.randn(1, 4), *[token] * n]).sum(1), {"token": token})
        assert set(use.keys) == {UseKey("CatBackward0", 0, ("token",))}
        assert [argument.number for argument in use.arguments] == list(range(1, n + 1))


def test_losses_that_are_made_of_parameters_alone_are_a_use():
    """Reshaped or cast, a parameter may be the losses themselves: nothing above would see it."""
    weight, reported = torch.randn(3, 1, requires_grad=True), []
    for losses in (weight.view(3), weight.squeeze(1).double()):
        (use,) = find_uses(losses, {"weight": weight})
        assert use.node is losses.grad_fn
        assert [key.parameters for key in use.keys] == [("weight",)]
        output_grads(losses, (use,), lambda use, grad: reported.append(grad.tolist()))
    assert reported == [[1.0, 1.0, 1.0]] * 2
