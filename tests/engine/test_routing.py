"""Models in which some examples, or some rows of an example, use other parts than the rest."""

import pytest
import torch
from structured import Batch, Called, assert_equals_definition, call, losses_of
from torch import Tensor, nn

from fl_dp.engine.clipping import clipped_grad_sum
from fl_dp.engine.probe import probe
from fl_dp.errors import NonFiniteError

pytestmark = pytest.mark.usefixtures("exact")


def rows(n: int) -> Batch:
    return call(torch.randn(n, 5, 6))


def layers(*outputs: int):
    """A trunk, and linear layers above it."""
    return nn.ModuleList([nn.Linear(6, 6), *(nn.Linear(6, p) for p in outputs)])


def masked_rows(m, x: Tensor, mask: Tensor) -> Tensor:
    """Works on the rows that a mask lets through."""
    output = x.new_zeros(*x.shape[:2], 5)
    output[mask] = m[1](m[0](x).tanh()[mask])
    return output


def sorted_by_length(m, x: Tensor) -> Tensor:
    """As packed sequences are made."""
    order = x[:, 0].norm(dim=1).argsort()
    return m[1](m[0](x[:, 0]).tanh()[order])[order.argsort()]


def one_by_one(m, x: Tensor) -> Tensor:
    h = m[0](x[:, 0]).tanh()
    outputs = [m[1](row) if row.sum() > 0 else m[2](row) for row in h]
    return torch.stack(outputs) if outputs else m[1](h)


def selected(m, x: Tensor) -> Tensor:
    """Both parts are computed, one is taken."""
    h = m[0](x).tanh()
    return torch.where(h.sum(-1, keepdim=True) > 0, m[1](h), m[2](h))


def last_word(m, words: Tensor) -> Tensor:
    return m[1](m[0](words))[torch.arange(len(words)), words.argmax(1)]


def same_layer_sorted(m, x: Tensor) -> Tensor:
    """One layer on rows in their places, and on rows in an order that data decide: no axis fits both."""
    order = x[:, :, 0].flatten().argsort()
    again = m[0](m[0](x).tanh().flatten(0, 1)[order]).tanh()
    return again[order.argsort()].view_as(x)


def bias_above_its_own_layer(m, x: Tensor) -> Tensor:
    """What is pulled back to the bias must stop at the layer below, which has had its gradient."""
    order = x[:, 0].norm(dim=1).argsort()
    h = m[0](x[:, 0]).tanh()
    above = torch.addmm(m[0].bias, h[order], m[1].weight).tanh()
    return m[2](above[order.argsort()]) + m[0](h)[:, :2]


class Mixture(nn.Module):
    """Each row goes to the expert that a gate prefers, between layers that all rows pass."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.trunk, self.gate, self.head = way, nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(6, 2)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 6)) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.trunk(x).tanh().flatten(0, 1)
        weight, choice = self.gate(h).softmax(1).max(1)
        output = h
        for number, expert in enumerate(self.experts):
            chosen = (choice == number).nonzero().squeeze(1)
            answer = expert(h[chosen]) * weight[chosen, None]
            if self.way == "index_add":
                output = output.index_add(0, chosen, answer)
            elif self.way == "index_put":
                output = output.index_put((chosen,), answer)
            else:
                output = output.scatter_add(0, chosen[:, None].expand(-1, 6), answer)
        return self.head(output.tanh()).view(*x.shape[:2], 2)


CASES = {
    "masked rows": (
        lambda: Called(layers(5), masked_rows),
        lambda n: call(torch.randn(n, 5, 6), torch.rand(n, 5) < 0.5),
    ),
    "experts, index_add": (lambda: Mixture("index_add"), rows),
    "experts, index_put": (lambda: Mixture("index_put"), rows),
    "experts, scatter_add": (lambda: Mixture("scatter_add"), rows),
    "sorted by data": (lambda: Called(layers(3), sorted_by_length), rows),
    "sorted by data, the same layer": (lambda: Called(layers(3), same_layer_sorted), rows),
    "sorted by data, the same bias": (lambda: Called(layers(6, 2), bias_above_its_own_layer), rows),
    "one by one": (lambda: Called(layers(3, 3), one_by_one), rows),
    "selected": (lambda: Called(layers(3, 3), selected), rows),
    "one position of each": (
        lambda: Called(nn.ModuleList([nn.Embedding(11, 6), nn.Linear(6, 3)]), last_word),
        lambda n: call(torch.randint(0, 11, (n, 5))),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_one_backward_per_example(case):
    make, sample = CASES[case]
    assert_equals_definition(make(), sample)


def test_an_example_that_is_not_finite_spoils_no_other_unseen():
    """Its rows meet others' in one product; zero times NaN would make all others count as zero."""
    model, (args, _) = Mixture("index_add"), rows(6)
    axes = probe(model, *args)
    args[0][2] = float("nan")
    parameters = dict(model.named_parameters())
    with pytest.raises(NonFiniteError, match="not finite"):
        clipped_grad_sum(losses_of(model, call(*args)), parameters, max_grad_norm=0.3, axes=axes)
    alone = clipped_grad_sum(losses_of(model, call(args[0][2:3])), parameters, max_grad_norm=0.3, axes=axes)
    assert all(grad.eq(0).all() for grad in alone.grads.values())
