"""One digest of a model's weights, whatever holds them."""

import numpy as np
import torch
from torch import nn

from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.weights_digest import weights_digest


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
