"""What a forward pass leaves in the model is named; what is made once, of shapes alone, may stay."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fl_dp.engine.probe import probe
from fl_dp.engine.tracing.writes import differing, held, parameters_kept, same_values
from fl_dp.errors import ProbeError


class Does(nn.Module):
    """Calls `act(self, x)` in every forward pass."""

    def __init__(self, act, start: Any = None) -> None:
        super().__init__()
        self.linear, self.act, self.kept = nn.Linear(4, 3), act, start

    def forward(self, x: Tensor) -> Tensor:
        self.act(self, x.detach())
        return self.linear(x)


@dataclass
class Numbers:
    mean: float = 0.0
    never: float = 0.0


def _unset() -> Numbers:
    numbers = Numbers()
    del numbers.__dict__["never"]
    return numbers


def _as_array(model: nn.Module, x: Tensor) -> None:
    model.kept = x.mean(0).numpy()


WRITES = {
    "a tensor": (lambda m, x: setattr(m, "kept", x.mean(0)), None, "kept"),
    "a new one": (lambda m, x: setattr(m, "seen", x), None, "seen"),
    "a number": (lambda m, x: setattr(m, "kept", float(x.mean())), 0.0, "kept"),
    "a text": (lambda m, x: setattr(m, "kept", str(x)), "", "kept"),
    "an array": (_as_array, None, "kept"),
    "a count": (lambda m, x: setattr(m, "kept", m.kept + 1), 0, "kept"),
    "a list": (lambda m, x: m.kept.append(x), [], "kept"),
    "a ring": (lambda m, x: m.kept.append(x), deque(maxlen=1), r"kept\[0\]"),
    "a set": (lambda m, x: m.kept.add(float(x.mean())), set(), "kept"),
    "a mapping": (lambda m, x: m.kept.update({float(x.mean()): 1}), {}, "kept"),
    "deep inside": (lambda m, x: m.kept["a"][0].copy_(x[0]), {"a": (torch.zeros(4),)}, r"kept\['a'\]\[0\]"),
    "a dataclass": (lambda m, x: setattr(m.kept, "mean", float(x.mean())), _unset(), r"kept\.mean"),
    "another module": (lambda m, x: setattr(m.linear, "seen", x), None, r"linear\.seen"),
    "sparse": (lambda m, x: setattr(m, "kept", x.to_sparse()), None, "kept"),
}


@pytest.mark.parametrize("case", WRITES)
def test_an_attribute_that_holds_data_is_named(case):
    act, start, path = WRITES[case]
    with pytest.raises(ProbeError, match=f"writes to attribute {path},"):
        probe(Does(act, start), torch.randn(5, 4))


def _once(model: nn.Module, x: Tensor) -> None:
    if model.kept is None:
        model.kept = torch.linspace(0, 1, x.shape[1])


def _by_shape(model: nn.Module, x: Tensor) -> None:
    model.kept.setdefault(tuple(x.shape), torch.ones(x.shape))


CACHES = {
    "made once": (_once, None),
    "made anew": (lambda m, x: setattr(m, "kept", torch.arange(x.shape[1])), None),
    "for each shape": (_by_shape, {}),
    "the shape": (lambda m, x: setattr(m, "kept", x.shape), None),
    "not a number": (lambda m, x: setattr(m, "kept", float("nan")), None),
    "sparse": (lambda m, x: setattr(m, "kept", torch.eye(3).to_sparse_csr()), None),
    "what holds itself": (lambda m, x: None, [1]),
}


@pytest.mark.parametrize("case", CACHES)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_what_does_not_depend_on_data_may_stay(case):
    act, start = CACHES[case]
    if isinstance(start, list):
        start.append(start)
    assert probe(Does(act, start), torch.randn(5, 4)).batch


@pytest.mark.parametrize("frozen", [True, False])
def test_a_parameter_that_is_written_is_named_and_a_frozen_one_is_as_before(frozen):
    model = Does(lambda m, x: m.linear.weight.data[0].copy_(x.mean(0)))
    model.linear.weight.requires_grad_(not frozen)
    before = model.linear.weight.detach().clone()
    with pytest.raises(ProbeError, match=r"writes to parameter linear\.weight"):
        probe(model, torch.randn(5, 4))
    assert torch.equal(model.linear.weight, before)


def test_a_parameter_that_only_later_calls_write_is_named():
    calls = []

    def later(model: nn.Module, x: Tensor) -> None:
        calls.append(x)
        if len(calls) > 1:
            model.kept.data.copy_(x[0])

    model = Does(later, nn.Parameter(torch.zeros(4), requires_grad=False))  # no output depends on it
    with pytest.raises(ProbeError, match="writes to parameter kept,"):
        probe(model, torch.randn(5, 4))


def test_frozen_parameters_come_back_also_where_the_model_fails():
    model = Does(lambda m, x: (m.linear.bias.data.fill_(7.0), x[:, 9]))
    model.linear.bias.requires_grad_(False)
    before = model.linear.bias.clone()
    with pytest.raises(ProbeError, match="raised IndexError"):
        probe(model, torch.randn(5, 4))
    assert torch.equal(model.linear.bias, before)


def test_what_replaces_a_parameter_is_what_is_compared():
    model, other = nn.Linear(4, 3), torch.randn(3, 4)
    with parameters_kept(model, {"weight": other}) as check:
        check()
        other[0, 0] += 1
        with pytest.raises(ProbeError, match="parameter weight"):
            check()


def test_values_are_copied_and_hooks_are_no_values():
    model = Does(lambda m, x: None, torch.ones(2))
    before = held(model)
    model.kept += 1
    model.register_forward_hook(lambda *_: None)
    assert (
        set(held(model))
        == set(before)
        == {"act", "kept"} | {f"linear.{size}_features" for size in ("in", "out")}
    )
    assert differing(before, held(model)) == ["kept"]


NAN = torch.tensor([1.0, torch.nan])


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (NAN.clone(), True),
        (torch.tensor([torch.nan, 1.0]), False),
        (torch.tensor([1.0, 2.0]), False),
        (NAN.double(), False),
        (NAN[:1], False),
        (NAN.to_sparse(), False),
    ],
)
def test_the_same_values_are_the_same_bit_by_bit_but_for_kinds_of_nan(other, expected):
    assert same_values(NAN, other) is same_values(other, NAN) is expected


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("sparse", [Tensor.to_sparse, Tensor.to_sparse_csr])
def test_sparse_tensors_are_compared_too(sparse):
    assert same_values(sparse(torch.eye(3)), sparse(torch.eye(3)))
    assert not same_values(sparse(torch.eye(3)), sparse(2 * torch.eye(3)))
