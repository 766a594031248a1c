"""The clipped sum of examples that have a pass of their own each: its definition, and its bound."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fl_dp.engine.clipping import ClippedSum, clipped_grad_sum
from fl_dp.engine.one_by_one import OneByOneSum
from fl_dp.errors import ConfigError


class Tied(nn.Module):
    """Tokens in, a number out; the table is used twice, and one parameter never."""

    def __init__(self, sparse=False):
        super().__init__()
        self.table = nn.Embedding(9, 4, sparse=sparse)
        self.inner = nn.Linear(4, 4)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, tokens):
        hidden = torch.tanh(self.inner(self.table(tokens))).sum(1)
        return hidden @ self.table.weight.T if not self.table.sparse else hidden


def losses_of(model, x, y):
    return F.cross_entropy(model(x), y, reduction="none")


def summed(model, x, y, bound, clipping="abadi"):
    total = OneByOneSum(dict(model.named_parameters()), max_grad_norm=bound, clipping=clipping)
    for i in range(len(x)):
        total.add(losses_of(model, x[i : i + 1], y[i : i + 1]))
    return total.total()


def by_definition(model, x, y, bound):
    """One backward pass per example, each gradient scaled to `bound`, in float64."""
    parameters = list(model.parameters())
    sums = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    for i in range(len(x)):
        loss = losses_of(model, x[i : i + 1], y[i : i + 1]).sum()
        grads = torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True)
        length = torch.sqrt(sum((g.double() ** 2).sum() for g in grads))
        for total, grad in zip(sums, grads, strict=True):
            total += grad.double() * min(1.0, bound / float(length))
    return dict(zip(dict(model.named_parameters()), sums, strict=True))


def batch(count=12):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 9, (count, 5), generator=generator)
    return tokens, torch.randint(0, 4, (count,), generator=generator)


@pytest.mark.parametrize("bound", [0.2, 1.0, 100.0])
def test_it_is_the_definition(bound):
    torch.manual_seed(0)
    model, (x, y) = Tied().double(), batch()
    found, expected = summed(model, x, y, bound), by_definition(model, x, y, bound)
    assert list(found.grads) == list(expected)
    for name, grad in expected.items():
        torch.testing.assert_close(found.grads[name], grad, rtol=1e-9, atol=1e-12)
    assert found.sensitivity == bound
    assert found.norms.shape == (12,)


def test_in_float32_it_is_the_sum_of_the_batch_and_in_float64():
    torch.manual_seed(0)
    model, (x, y) = Tied(), batch()
    parameters = dict(model.named_parameters())
    for bound in (0.3, {"table": 0.1, "": 0.2}):
        found = summed(model, x, y, bound, "automatic")
        expected = clipped_grad_sum(
            losses_of(model, x, y), parameters, max_grad_norm=bound, clipping="automatic"
        )
        assert found.sensitivity == expected.sensitivity
        assert found.norms.shape == expected.norms.shape
        for name, grad in expected.grads.items():
            assert found.grads[name].dtype == torch.float64
            torch.testing.assert_close(found.grads[name].float(), grad, rtol=0, atol=1e-5)


def test_sparse_gradients_count():
    torch.manual_seed(0)
    x, y = batch()
    torch.manual_seed(0)
    dense = summed(Tied(sparse=False), x, y, 0.3)
    torch.manual_seed(0)
    model = Tied(sparse=True)
    sparse, expected = summed(model, x, y, 0.3), by_definition_sparse(model, x, y, 0.3)
    assert set(sparse.grads) == set(dense.grads)
    torch.testing.assert_close(sparse.grads["table.weight"], expected, rtol=1e-4, atol=1e-6)


def by_definition_sparse(model, x, y, bound):
    total = torch.zeros(9, 4, dtype=torch.float64)
    for i in range(len(x)):
        loss = losses_of(model, x[i : i + 1], y[i : i + 1]).sum()
        used = [model.table.weight, model.inner.weight, model.inner.bias]
        grads = [grad.to_dense().double() for grad in torch.autograd.grad(loss, used)]
        length = torch.sqrt(sum((g**2).sum() for g in grads))
        total += grads[0] * min(1.0, bound / float(length))
    return total


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_example_that_is_not_finite_adds_nothing_for_any_bound(value):
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
    spoiled = x.clone()
    spoiled[2, 0] = value
    rest = [0, 1, 3, 4]
    found = summed(model, spoiled, y, {"weight": 0.2, "bias": 0.1})
    expected = summed(model, x[rest], y[rest], {"weight": 0.2, "bias": 0.1})
    assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert found.num_non_finite == 1


def test_what_raises_adds_nothing():
    model = nn.Linear(3, 4)
    total = OneByOneSum(dict(model.named_parameters()), max_grad_norm=1.0)
    total.add(losses_of(model, torch.randn(1, 3), torch.tensor([1])))
    before = {name: grad.clone() for name, grad in total.total().grads.items()}
    with pytest.raises(RuntimeError, match="does not require grad"):
        total.add(torch.ones(1))
    assert all(torch.equal(total.total().grads[name], grad) for name, grad in before.items())
    assert len(total.total().norms) == 1


def test_no_examples():
    model = nn.Linear(3, 4)
    total = OneByOneSum(dict(model.named_parameters()), max_grad_norm=1.0).total()
    assert isinstance(total, ClippedSum)
    assert all(not grad.any() for grad in total.grads.values())
    assert total.norms.shape == (0,)


def test_a_bound_that_bounds_nothing_is_refused():
    with pytest.raises(ConfigError, match="max_grad_norm"):
        OneByOneSum(dict(nn.Linear(3, 4).named_parameters()), max_grad_norm=0.0)
