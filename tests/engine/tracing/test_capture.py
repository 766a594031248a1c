"""The graph of the losses is the record: no use of a parameter escapes it."""

import torch
from torch import nn

from fl_dp.engine.tracing.capture import UseKey, find_uses, output_grads


def _uses(model, x):
    losses = model(x).flatten(1).sum(1)
    return losses, find_uses(losses, dict(model.named_parameters()))


def test_sees_uses_inside_composite_operators():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    _, uses = _uses(model, torch.randn(3, 5, 8))
    seen = {name for use in uses for key in use.keys for name in key.parameters}
    assert seen == dict(model.named_parameters()).keys()


def test_only_the_lowest_use_is_the_frontier():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 4), nn.Linear(4, 2))
    _, uses = _uses(model, torch.randn(3, 1, 6, 6))
    assert [use.frontier for use in uses] == [True, False, False]
    assert uses[0].node.name() == "ConvolutionBackward0"


def test_every_use_reports_the_gradient_of_its_output_in_one_pass():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    losses, uses = _uses(model, torch.randn(5, 4))
    reported = {}
    output_grads(losses, uses, lambda use, grad: reported.__setitem__(use.keys[0].parameters[0], grad))
    assert {name: tuple(g.shape) for name, g in reported.items()} == {"0.bias": (5, 3), "2.bias": (5, 2)}
    assert torch.equal(reported["2.bias"], torch.ones(5, 2))


def test_a_use_that_does_not_matter_to_the_losses_is_not_reported():
    model = nn.Linear(4, 3)
    losses = model(torch.randn(5, 4)).detach().requires_grad_().sum(1)
    assert find_uses(losses, dict(model.named_parameters())) == ()


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


def test_a_function_of_parameters_alone_is_followed_to_where_it_meets_data():
    weight, a, b = (torch.randn(shape, requires_grad=True) for shape in ((3, 4), (2, 4), (3, 2)))
    losses = nn.functional.linear(torch.randn(5, 4), weight + b @ a).sum(1)
    parameters = {"weight": weight, "a": a, "b": b}
    product = frozenset({UseKey("MmBackward0", 0, ("b",)), UseKey("MmBackward0", 1, ("a",))})
    total = frozenset({UseKey("AddBackward0", 0, ("weight",)), UseKey("AddBackward0", 1, ("a", "b"))})
    shared = frozenset({product, total})
    (use,) = find_uses(losses, parameters, shared)
    assert use.keys == (UseKey("MmBackward0", 1, ("a", "b", "weight")),)
    assert use.arguments[0].shape == (4, 3)
    assert use.arguments[0].path is None


def test_the_product_of_two_parameters_is_not_taken_for_their_product_with_data():
    a, b = (torch.randn(shape, requires_grad=True) for shape in ((2, 4), (3, 2)))
    losses = nn.functional.linear(torch.randn(5, 4), b @ a).sum(1)
    product = frozenset({UseKey("MmBackward0", 0, ("b",)), UseKey("MmBackward0", 1, ("a",))})
    (use,) = find_uses(losses, {"a": a, "b": b}, frozenset({product}))
    assert use.keys == (UseKey("MmBackward0", 1, ("a", "b")),)


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
