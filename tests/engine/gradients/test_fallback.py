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


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


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


def test_an_infinite_row_beside_other_examples_is_refused():
    x, weight = torch.randn(3, 4, dtype=torch.float64), _weight(4)
    use, argument = _use(x - weight, w=weight)
    grad = torch.ones(3, 4, dtype=torch.float64)
    grad[1] = torch.inf
    with pytest.raises(NonFiniteError, match="no rule to tell whose they are"):
        masked_grads(use, argument, grad, BatchAxis(), 3)
    finite = grad.clone()
    finite[1] = 0
    torch.testing.assert_close(
        masked_grads(use, argument, finite, BatchAxis(), 3)[0], -torch.ones_like(weight)
    )


def test_a_single_example_may_be_infinite():
    x, weight = torch.randn(1, 4, dtype=torch.float64), _weight(4)
    use, argument = _use(x - weight, w=weight)
    found = masked_grads(use, argument, torch.full((1, 4), torch.inf, dtype=torch.float64), BatchAxis(), 1)
    assert found.isinf().all()


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


@pytest.mark.parametrize(("n", "refused"), [(1, False), (3, True)])
def test_values_that_become_infinite_on_the_way_back_are_refused_beside_other_examples(n, refused):
    weight = _weight(4)
    spoilt = weight * torch.tensor([1.0, torch.inf, 1.0, 1.0], dtype=torch.float64)
    grads = torch.ones(n, 4, dtype=torch.float64)
    if not refused:
        assert not pull_back(_edge(spoilt), grads, {"w": weight}, ["w"])["w"].isfinite().all()
        return
    with pytest.raises(NonFiniteError, match="w: values that are not finite"):
        pull_back(_edge(spoilt), grads, {"w": weight}, ["w"])


def test_an_example_that_was_infinite_before_refuses_nothing():
    """Its gradient counts as zero later; the others' are finite and stay so."""
    weight = _weight(4)
    grads = torch.ones(3, 4, dtype=torch.float64)
    grads[1] = torch.inf
    found = pull_back(_edge(weight * 2), grads, {"w": weight}, ["w"])["w"]
    assert found.isfinite().all(1).tolist() == [True, False, True]


def test_results_may_take_the_memory_of_the_gradients():
    """Of the one parameter that has the same shape; the other's may be the very gradient that it replaces."""
    first, second = _weight(2, 4), _weight(2, 4)
    grads = torch.randn(3, 2, 4, dtype=torch.float64)
    before, edge = grads.clone(), _edge(first * 2 + second)
    found = pull_back(edge, grads, {"a": first, "b": second}, ["a", "b"], overwrite=True)
    assert found["a"] is grads
    assert torch.equal(found["a"], before * 2)
    assert torch.equal(found["b"], before)


def _transposed(weight: Tensor) -> Tensor:
    return weight.mT


def _sums_beside_constants(weight: Tensor) -> Tensor:
    return torch.cat([weight.sum(1).view(1, -1), torch.ones_like(weight[1:])])


@pytest.mark.parametrize("function", [_transposed, _sums_beside_constants])
def test_a_result_that_is_a_view_of_what_it_replaces_is_read_before_it_is_written(function):
    """Gaps and repeats included: PyTorch refuses some such copies, and of others it makes wrong numbers."""
    weight, grads = _weight(4, 4), torch.randn(3, 4, 4, dtype=torch.float64)
    before, output = grads.clone(), function(weight)
    found = pull_back(_edge(output), grads, {"w": weight}, ["w"], overwrite=True)["w"]
    for mine, grad in zip(found, before, strict=True):
        assert torch.equal(mine, torch.autograd.grad(output, weight, grad, retain_graph=True)[0])
    assert found is grads


def test_the_gradients_stay_as_they_are_unless_they_may_be_overwritten():
    weight, grads = _weight(4), torch.randn(3, 4, dtype=torch.float64)
    before = grads.clone()
    found = pull_back(_edge(weight * 2), grads, {"w": weight}, ["w"])["w"]
    assert torch.equal(grads, before)
    assert torch.equal(found, before * 2)


def test_a_large_finite_gradient_whose_sum_is_infinite_is_finite():
    weight = _weight(2)
    spoilt = weight * torch.tensor([1.0, torch.inf], dtype=torch.float64)
    grads = torch.full((3, 2), 1e308, dtype=torch.float64)
    with pytest.raises(NonFiniteError, match="w: values that are not finite"):
        pull_back(_edge(spoilt), grads, {"w": weight}, ["w"])


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


@pytest.mark.parametrize("spoilt", [0, 1])
def test_values_of_any_one_parameter_that_become_infinite_are_refused(spoilt):
    weights, factors = [_weight(4), _weight(4)], [1.0, 1.0]
    factors[spoilt] = torch.inf
    output = sum(weight * factor for weight, factor in zip(weights, factors, strict=True))
    with pytest.raises(NonFiniteError, match="values that are not finite"):
        pull_back(
            _edge(output),
            torch.ones(3, 4, dtype=torch.float64),
            dict(zip("ab", weights, strict=True)),
            ["a", "b"],
        )
