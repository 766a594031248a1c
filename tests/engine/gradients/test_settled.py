"""Gradients that are kept may lie elsewhere; what they are, and what becomes of them, stays the same."""

import weakref

import pytest
import torch
from definition import assert_equal, clipped_by_definition, clipped_by_engine
from torch import Tensor, nn

from fl_dp.engine.gradients import settled as module
from fl_dp.engine.gradients.kept import Kept
from fl_dp.engine.gradients.settled import Settled
from fl_dp.engine.kernel_choice.memory import peak_bytes
from fl_dp.engine.probe import probe


@pytest.fixture(autouse=True)
def _everywhere(monkeypatch):
    """Gradients of any length, to memory that starts anywhere."""
    monkeypatch.setattr(module, "LEAST_BYTES", 1)
    monkeypatch.setattr(module, "_ALIGNMENT", 1)


def _kept(*parts: Tensor) -> Kept:
    return Kept(torch.zeros(len(parts[0])), parts, lambda factors, *_: factors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", [(5, 3, 4), (5, 6, 2, 3)])
def test_the_numbers_and_their_order_stay_and_the_gradient_is_let_go(shape, dtype):
    grad = torch.randn(shape, dtype=dtype).movedim(1, -1).contiguous().movedim(-1, 1)  # channels last
    other, expected, strides = torch.randn(5, 2), grad.clone(), grad.stride()
    found = Settled(grad)(_kept(grad, other))
    assert torch.equal(found.parts[0], expected)
    assert found.parts[0].stride() == strides
    assert found.parts[1] is other
    gone = weakref.ref(grad.untyped_storage())
    del grad
    assert gone() is None


def test_a_view_without_gaps_in_another_shape_is_moved_as_well():
    grad = torch.randn(6, 4)
    settle = Settled(grad)
    part = settle(_kept(grad.view(2, 3, 4))).parts[0]
    assert settle(_kept(grad)).parts[0].data_ptr() == part.data_ptr()  # once, for whoever keeps it
    assert part.untyped_storage().data_ptr() != grad.untyped_storage().data_ptr()
    assert torch.equal(part, grad.view(2, 3, 4))


@pytest.mark.parametrize("other", [torch.conj, torch._neg_view])
def test_a_view_of_other_numbers_keeps_them(other):
    grad = torch.randn(6, 4, dtype=torch.complex64)
    part, plain = Settled(grad)(_kept(other(grad), grad)).parts
    assert torch.equal(part, other(grad))
    assert torch.equal(plain, grad)


@pytest.mark.parametrize(
    ("grad", "part", "limits"),
    [
        (torch.randn(6, 4), slice(None), {"LEAST_BYTES": 97}),
        (torch.randn(6, 4), slice(None), {"_ALIGNMENT": 2**60}),
        (torch.randn(6, 4), slice(3), {}),
        (torch.randn(6, 4, device="meta"), slice(None), {}),
        (torch.randn(1).expand(6, 4), slice(None), {}),
        (torch.randn(6, 5)[:, :4], slice(None), {}),
    ],
    ids=["small", "memory that is not aligned", "a part of it", "another device", "expanded", "with gaps"],
)
def test_what_would_win_nothing_stays_where_it_is(grad, part, limits, monkeypatch):
    for name, value in limits.items():
        monkeypatch.setattr(module, name, value)
    kept = grad[part]
    assert Settled(grad)(_kept(kept)).parts[0] is kept


MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3)), (4, 6)),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 5, 3), nn.GroupNorm(1, 5)),
        (3, 8, 8),
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True), (4, 6)),
}


@pytest.mark.parametrize("mode", ["ghost", "instantiate", "mixed"])
@pytest.mark.parametrize("case", MODELS)
def test_the_sum_equals_one_backward_per_example(case, mode):
    make, shape = MODELS[case]
    model, inputs = make().double(), torch.randn(9, *shape, dtype=torch.float64)
    found = clipped_by_engine(model, inputs, 0.3, mode, probe(model, inputs)).grads
    assert_equal(found, clipped_by_definition(model, inputs, 0.3))


def test_a_step_moves_a_gradient_once_that_two_parameters_keep(monkeypatch):
    moved: list[torch.Size] = []
    move = module._moved
    monkeypatch.setattr(module, "_moved", lambda grad: (moved.append(grad.shape), move(grad))[1])
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    clipped_by_engine(model, torch.randn(9, 6), 0.3, "ghost")
    assert moved == [(9, 3)]  # not that of the lowest layer


def test_memory_that_no_operator_has_made_counts_as_well():
    """`largest_physical_batch` counts bytes: too few would be a batch that does not fit."""
    grad = torch.randn(1000, 100)
    peak = peak_bytes(lambda: Settled(grad)(_kept(grad)).parts[0] + 1, torch.device("cpu"))
    assert peak == 2 * grad.nbytes
