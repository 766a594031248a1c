"""Without a rule: what autograd gives when one example's rows count, and nothing that others spoil."""

import pytest
import torch
from torch import Tensor, nn

from fl_dp.engine.gradients.fallback import masked_grads, pull_back
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import find_uses
from fl_dp.errors import NonFiniteError


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape, dtype=torch.float64))


def _use(output: Tensor, **parameters: nn.Parameter):
    """The only use, its only argument."""
    (use,) = find_uses(output.flatten()[:1], parameters)
    (argument,) = use.arguments
    return use, argument


@pytest.mark.parametrize(
    ("dim", "minor", "examples"),
    [(0, False, [0, 0, 1, 1, 2, 2]), (0, True, [0, 1, 2, 0, 1, 2]), (1, False, [0, 0, 1, 1, 2, 2])],
)
def test_each_example_gets_what_its_own_rows_give(dim, minor, examples):
    x, weight = torch.randn(6, 6, dtype=torch.float64), _weight(6, 1)
    output = x.pow(2) - weight  # no rule: SubBackward0
    use, argument = _use(output, w=weight)
    grad = torch.randn_like(output)
    found = masked_grads(use, argument, grad, BatchAxis(dim, minor), 3)
    assert found.shape == (3, 6, 1)
    owner = torch.tensor(examples)
    for n in range(3):
        mask = (owner == n).view(-1, 1) if dim == 0 else owner == n
        (expected,) = torch.autograd.grad(output, weight, grad * mask, retain_graph=True)
        torch.testing.assert_close(found[n], expected)


def test_an_infinite_row_beside_other_examples_is_refused_and_alone_it_may_be():
    x, weight = torch.randn(3, 4, dtype=torch.float64), _weight(4)
    use, argument = _use(x - weight, w=weight)
    grad = torch.ones(3, 4, dtype=torch.float64)
    assert torch.equal(masked_grads(use, argument, grad, BatchAxis(), 3)[0], -torch.ones_like(weight))
    grad[1] = torch.inf
    with pytest.raises(NonFiniteError, match="no rule says which examples they belong to"):
        masked_grads(use, argument, grad, BatchAxis(), 3)
    use, argument = _use(x[:1] - weight, w=weight)
    assert masked_grads(use, argument, grad[1:2], BatchAxis(), 1).isinf().all()


def _edge(output: Tensor):
    return torch.autograd.graph.get_gradient_edge(output)


def test_a_parameter_itself_has_the_gradients_as_they_are():
    weight, grads = _weight(4), torch.randn(3, 4, dtype=torch.float64)
    assert pull_back(_edge(weight), grads, {"w": weight}, ["w"])["w"] is grads


def test_functions_of_parameters_are_pulled_back_example_by_example():
    a, b, idle = _weight(2, 4), _weight(3, 2), _weight(5)
    product = b @ a
    grads = torch.randn(3, 3, 4, dtype=torch.float64)
    found = pull_back(_edge(product), grads, {"a": a, "b": b, "idle": idle}, ["a", "b", "idle"])
    torch.testing.assert_close(found["a"], torch.stack([b.detach().T @ g for g in grads]))
    torch.testing.assert_close(found["b"], torch.stack([g @ a.detach().T for g in grads]))
    assert torch.equal(found["idle"], torch.zeros(3, 5, dtype=torch.float64))


@pytest.mark.parametrize("spoilt", [0, 1])
@pytest.mark.parametrize("size", [1.0, 1e308])
def test_values_that_become_infinite_on_the_way_back_are_refused_beside_other_examples(spoilt, size):
    """Of any parameter; the sum of large ones is infinite though each is finite."""
    weights, factors = {"a": _weight(4), "b": _weight(4)}, torch.ones(2, 4, dtype=torch.float64)
    factors[spoilt, 1] = torch.inf

    def pulled(n: int) -> dict[str, Tensor]:
        output = weights["a"] * factors[0] + weights["b"] * factors[1]
        return pull_back(_edge(output), torch.full((n, 4), size, dtype=torch.float64), weights, ["a", "b"])

    assert not pulled(1)["ab"[spoilt]].isfinite().all()
    with pytest.raises(NonFiniteError, match="values that are not finite"):
        pulled(3)


def test_results_may_take_the_memory_of_the_gradients():
    """Of the one parameter that has the same shape; the other's may be the very gradient that it replaces."""
    first, second = _weight(2, 4), _weight(2, 4)
    grads = torch.randn(3, 2, 4, dtype=torch.float64)
    before, edge = grads.clone(), _edge(first * 2 + second)
    found = pull_back(edge, grads, {"a": first, "b": second}, ["a", "b"], overwrite=True)
    assert found["a"] is grads
    assert torch.equal(found["a"], before * 2)
    assert torch.equal(found["b"], before)


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w.mT,
        lambda w: torch.cat([w.sum(1).view(1, -1), torch.ones_like(w[1:])]),  # sums beside constants
    ],
)
def test_a_result_that_is_a_view_of_what_it_replaces_is_read_before_it_is_written(function):
    """Gaps and repeats included: PyTorch refuses some such copies, and of others it makes wrong numbers."""
    weight, grads = _weight(4, 4), torch.randn(3, 4, 4, dtype=torch.float64)
    before, output = grads.clone(), function(weight)
    found = pull_back(_edge(output), grads, {"w": weight}, ["w"], overwrite=True)["w"]
    for mine, grad in zip(found, before, strict=True):
        assert torch.equal(mine, torch.autograd.grad(output, weight, grad, retain_graph=True)[0])
    assert found is grads


def test_the_gradients_stay_as_they_are_unless_they_may_be_overwritten():
    """One that was infinite before refuses nothing: its gradient counts as zero later, the others' stay."""
    weight, grads = _weight(4), torch.randn(3, 4, dtype=torch.float64)
    grads[1] = torch.inf
    before = grads.clone()
    found = pull_back(_edge(weight * 2), grads, {"w": weight}, ["w"])["w"]
    assert torch.equal(grads, before)
    assert torch.equal(found, before * 2)


def test_a_parameter_that_the_losses_do_not_move_has_zeros_in_the_memory_of_the_gradients_too():
    weight, idle = _weight(5), _weight(4)
    grads = torch.randn(3, 4, dtype=torch.float64)
    found = pull_back(_edge(weight[:4] * 2), grads, {"i": idle, "w": weight}, ["i", "w"], overwrite=True)
    assert not found["i"].any()
    assert found["w"][:, :4].all()


def test_the_memory_of_gradients_of_another_type_is_not_taken():
    """A parameter that was cast to fewer digits has gradients of its own type."""
    weight, grads = _weight(4), torch.randn(3, 4).bfloat16()
    found = pull_back(_edge((weight * 0.3).bfloat16()), grads, {"w": weight}, ["w"], overwrite=True)["w"]
    assert torch.equal(found, grads.double() * 0.3)
