"""Models that keep nothing, or hide what they do: gradient checkpointing and torch.compile."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from definition import assert_equal, clipped_by_definition, clipped_by_engine, length
from structured import Called, assert_equals_definition, call
from torch import Tensor, nn
from torch.utils.checkpoint import GraphExecGroup, checkpoint

from fl_dp.engine.probe import probe
from fl_dp.engine.saved import SavedNode
from fl_dp.errors import ModelError

pytestmark = pytest.mark.usefixtures("exact")

KEPT: Callable[..., Any] = functools.partial(checkpoint, use_reentrant=False)
HIDDEN: Callable[..., Any] = functools.partial(checkpoint, use_reentrant=True)


class Parts(nn.Module):
    """Two layers, or blocks, each run by `by`; a norm and a scale read what is saved more than once."""

    def __init__(self, by: Callable[..., Any], *, last_by: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8))
        self.second = nn.Sequential(nn.Linear(8, 8), nn.GroupNorm(2, 8), nn.Tanh(), nn.Linear(8, 3))
        self.scale = nn.Parameter(torch.randn(8))
        self.by, self.last_by = by, last_by or by

    def forward(self, x: Tensor) -> Tensor:
        return self.last_by(self.second, self.by(self.first, x) * self.scale)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["mixed", "ghost", "instantiate"])
@pytest.mark.parametrize("size", [1, 8])
def test_a_checkpointed_model_equals_the_definition(mode: str, size: int) -> None:
    """One of whose operators has no rule."""
    model, x = Parts(KEPT), torch.randn(size, 5)
    model.second.insert(1, nn.PReLU(8))
    expected, axes = clipped_by_definition(model, x, 0.7), probe(model, x)
    assert length(expected) > 0.1
    assert_equal(clipped_by_engine(model, x, 0.7, mode, axes).grads, expected)


def test_checkpoints_inside_of_checkpoints_equal_the_definition() -> None:
    model = Parts(lambda part, x: KEPT(lambda x: part[3](KEPT(part[:3], x)), x))
    assert_equals_definition(model, lambda n: call(torch.randn(n, 5)))


def test_dropout_draws_the_same_masks_when_it_is_computed_again() -> None:
    model, x = Parts(KEPT), torch.randn(6, 5)
    plain = Parts(lambda part, x: part(x))
    for one in (model, plain):
        one.second.insert(3, nn.Dropout(0.5))
    plain.load_state_dict(model.state_dict())
    sums = []
    for one in (model, plain):
        axes = probe(one, x)
        torch.manual_seed(1)
        sums.append(clipped_by_engine(one, x, 0.7, axes=axes).grads)
    assert all(torch.equal(grad, sums[1][name]) for name, grad in sums[0].items())


def test_convolutions_embeddings_and_shared_parameters_equal_the_definition() -> None:
    def run(m: Any, tokens: Tensor) -> Tensor:
        h = KEPT(lambda t: m[0](t) + m[1][0], tokens)
        h = KEPT(m[2], h.transpose(1, 2)).transpose(1, 2)
        return KEPT(lambda h: h @ m[0].weight.T, h)  # type: ignore[no-any-return]

    places = nn.ParameterList([torch.randn(4, 6)])
    body = nn.Sequential(nn.Conv1d(6, 6, 3, padding=1), nn.Tanh(), nn.Conv1d(6, 6, 1))
    model = Called(nn.ModuleList([nn.Embedding(9, 6), places, body]), run)
    assert_equals_definition(model, lambda n: call(torch.randint(9, (n, 4))))


def test_a_part_is_computed_three_times_in_all() -> None:
    """Forward, for the backward pass, and for the rules; not once for each tensor."""
    model, x, times = Parts(KEPT), torch.randn(4, 5), []
    model.second.register_forward_pre_hook(lambda *_: times.append(1))
    clipped_by_engine(model, x, 1.0)
    assert len(times) == 3
    assert GraphExecGroup._get_current_group() is None  # the group of rules ends where they were asked


def test_the_probe_checks_a_checkpointed_part_at_the_weights_of_its_trial() -> None:
    """At the model's own, zeros, every per-example gradient of the first layer would be zero and pass."""
    seen = []

    class Looked(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(bool(self.weight.detach().abs().sum() > 0))
            return super().forward(x)

    model = Parts(KEPT)
    model.second[3] = Looked(8, 3)
    nn.init.zeros_(model.second[3].weight)
    probe(model, torch.randn(2, 5))
    assert seen
    assert all(seen)


def test_the_reentrant_form_is_refused_by_name() -> None:
    """Also where it leaves no trace in the graph: at the model's inputs, which need no gradient."""
    for last_by in (HIDDEN, KEPT):
        with pytest.raises(ModelError, match="use_reentrant=False"):
            probe(Parts(HIDDEN, last_by=last_by), torch.randn(2, 5))
    with pytest.raises(ModelError, match="use_reentrant=False"):
        clipped_by_engine(Parts(KEPT, last_by=HIDDEN), torch.randn(4, 5), 1.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's own imports
def test_a_compiled_model_is_refused_by_name_and_a_compiled_frozen_trunk_is_not() -> None:
    net, x = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), torch.randn(6, 5)
    with pytest.raises(ModelError, match=r"torch\.compile .*_orig_mod"):
        probe(torch.compile(net), x)
    trunk = nn.Linear(5, 5).requires_grad_(False)
    model = nn.Sequential(trunk, net)
    expected = clipped_by_definition(model, x, 0.7)
    model[0] = torch.compile(trunk)  # type: ignore[assignment]
    found = clipped_by_engine(model, x, 0.7, axes=probe(model, x))
    assert_equal(found.grads, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_compiled_by_the_eager_backend_equals_the_definition() -> None:
    net, x = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), torch.randn(6, 5)
    expected = clipped_by_definition(net, x, 0.7)
    model = torch.compile(net, backend="eager")
    found = clipped_by_engine(model, x, 0.7, axes=probe(model, x))
    assert all(torch.allclose(found.grads[f"_orig_mod.{n}"], g, atol=1e-9) for n, g in expected.items())


def test_what_is_read_twice_is_computed_once() -> None:
    out = KEPT(nn.Linear(5, 3), torch.randn(2, 5))
    node = SavedNode(out.grad_fn, GraphExecGroup())
    assert node._saved_mat1 is node._saved_mat1
