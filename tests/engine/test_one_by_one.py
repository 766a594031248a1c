"""The clipped sum of examples that have a pass of their own each: its definition, and its bound."""

import pytest
import torch
from definition import assert_equal, clipped_by_definition, projected_losses, trainable
from torch import nn

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.one_by_one import OneByOneSum
from fl_dp.errors import ConfigError


class Tied(nn.Module):
    """Tokens in, four numbers out; the table is used twice, and one parameter never."""

    def __init__(self, sparse=False):
        super().__init__()
        self.table, self.inner = nn.Embedding(9, 4, sparse=sparse), nn.Linear(4, 4)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, tokens):
        hidden = torch.tanh(self.inner(self.table(tokens))).sum(1)
        return hidden if self.table.sparse else hidden @ self.table.weight.T


def summed(model, x, bound, clipping="abadi"):
    total = OneByOneSum(trainable(model), max_grad_norm=bound, clipping=clipping)
    for one in x.split(1) if len(x) else ():
        total.add(projected_losses(model, one))
    return total.total()


def tokens():
    return torch.randint(0, 9, (12, 5))


@pytest.mark.parametrize("bound", [0.2, 1.0, 100.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_the_definition(bound, sparse):
    model, x = Tied(sparse).double(), tokens()
    found, expected = summed(model, x, bound), clipped_by_definition(model, x, bound)
    assert list(found.grads) == list(expected)
    assert_equal(found.grads, expected)
    assert found.sensitivity == bound
    assert found.norms.shape == (12,)


@pytest.mark.parametrize("bound", [0.3, {"table": 0.1, "": 0.2}])
def test_in_float32_it_is_the_sum_of_the_batch_and_in_float64(bound):
    model, x = Tied(), tokens()
    found = summed(model, x, bound, "automatic")
    expected = clipped_grad_sum(
        projected_losses(model, x), trainable(model), max_grad_norm=bound, clipping="automatic"
    )
    assert found.sensitivity == expected.sensitivity
    assert found.norms.shape == expected.norms.shape
    assert {grad.dtype for grad in found.grads.values()} == {torch.float64}
    assert_equal({name: grad.float() for name, grad in found.grads.items()}, expected.grads, 1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_example_that_is_not_finite_adds_nothing_for_any_bound(value):
    model, x, bounds = nn.Linear(3, 4), torch.randn(5, 3), {"weight": 0.2, "bias": 0.1}
    expected = summed(model, x[[0, 1, 3, 4]], bounds)
    x[2, 0] = value
    found = summed(model, x, bounds)
    assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert found.num_non_finite == 1


def test_what_raises_adds_nothing():
    model = nn.Linear(3, 4)
    total = OneByOneSum(trainable(model), max_grad_norm=1.0)
    total.add(projected_losses(model, torch.randn(1, 3)))
    before = {name: grad.clone() for name, grad in total.total().grads.items()}
    with pytest.raises(RuntimeError, match="does not require grad"):
        total.add(torch.ones(1))
    assert all(torch.equal(total.total().grads[name], grad) for name, grad in before.items())
    assert len(total.total().norms) == 1


def test_no_examples():
    total = summed(nn.Linear(3, 4), torch.zeros(0, 3), 1.0)
    assert not any(grad.any() for grad in total.grads.values())
    assert total.norms.shape == (0,)


def test_a_bound_that_bounds_nothing_is_refused():
    with pytest.raises(ConfigError, match="max_grad_norm"):
        OneByOneSum(trainable(nn.Linear(3, 4)), max_grad_norm=0.0)
