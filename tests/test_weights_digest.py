"""One digest of a model's weights, whatever holds them."""

import io

import numpy as np
import pytest
import torch
from torch import nn

from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.models.weights_file import load_saved
from fl_dp.weights_digest import ties_left_open, weights_digest


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("empty", torch.empty(0))
        self.register_buffer("nothing", torch.empty(0))


def test_arrays_as_they_are_sent_and_the_state_that_is_saved_have_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = Tied()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    assert len({weights_digest(one) for one in (state_arrays(model), model.state_dict(), saved)}) == 1


def test_every_part_counts() -> None:
    array = np.arange(6, dtype=np.float32)
    others = [{"b": array}, {"a": array.reshape(2, 3)}, {"a": array.astype(np.float64)}, {"a": array + 1}, {}]
    assert len({weights_digest(one) for one in ({"a": array}, *others)}) == 6


def test_the_order_does_not() -> None:
    a, b = np.ones(2), np.zeros(3)
    assert weights_digest({"a": a, "b": b}) == weights_digest({"b": b, "a": a})


def test_a_type_that_numpy_has_not() -> None:
    halves = torch.ones(3, dtype=torch.bfloat16)
    assert weights_digest({"a": halves}) != weights_digest({"a": halves.float()})


def test_no_name_stands_for_another_array() -> None:
    two = {"a": np.zeros(1, "float32"), "b": np.ones(1, "float32")}
    one = {"a torch.float32 (1,)\n\0\0\0\0b": np.ones(1, "float32")}
    assert weights_digest(two) != weights_digest(one)


X, Y = torch.arange(6.0) + 1, torch.ones(6) * 9


def saved(**weights: torch.Tensor) -> dict[str, torch.Tensor]:
    """As it comes out of a file, which keeps what shares a place, and how."""
    file = io.BytesIO()
    torch.save(weights, file)
    return load_saved(file.getvalue(), "it")  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "other",
    [
        {"a": X, "b": torch._neg_view(X)},  # the same place, and -X
        {"a": X, "b": X.reshape(2, 3)},
        {"a": X, "b": X[:3]},
        {"a": X, "b": Y},
        {"a": torch._neg_view(X), "b": X},
    ],
)
def test_a_second_name_that_is_no_tie_counts(other: dict[str, torch.Tensor]) -> None:
    assert weights_digest(saved(**other)) != weights_digest(saved(a=X, b=X))
    assert weights_digest(saved(**other)) == weights_digest(
        {name: one.clone().resolve_neg() for name, one in other.items()}
    )


def test_a_conjugated_view_has_its_own_values() -> None:
    z = torch.complex(X, Y)
    tied, conjugated = saved(a=z, b=z), saved(a=z, b=z.conj())
    assert weights_digest(conjugated) != weights_digest(tied)
    assert weights_digest(saved(a=z.conj())) == weights_digest({"a": z.conj().resolve_conj()})


def test_what_a_name_is_tied_with_is_told_where_the_digest_leaves_it_open() -> None:
    assert weights_digest(saved(a=X, c=Y, b=X)) == weights_digest(saved(a=X, c=Y, b=Y)), "hence the next"
    assert ties_left_open(saved(a=X, c=Y, b=X)) == {"b": "a"}
    assert ties_left_open(saved(a=X, c=Y, b=Y)) == {"b": "c"}
    assert ties_left_open(saved(a=X, c=Y[:3], b=X)) == {}
    assert ties_left_open(saved(a=X, c=Y)) == {}
