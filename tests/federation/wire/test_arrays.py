"""Weights on the wire: what arrives is what was sent, and what does not fit is refused."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord
from torch import nn

from fl_dp.errors import ConfigError
from fl_dp.federation.wire.arrays import ArraySpec, decode, encode, load_arrays, specs, state_arrays


class Tied(nn.Module):
    """One weight under two names, a buffer, and a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("count", torch.tensor(5))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3.5),
        np.zeros((0, 4)),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(8.0)[::2],
        np.array([True, False]),
        np.arange(3, dtype=">f4"),
        np.ones(3, np.float16),
    ],
)
def test_an_array_travels_as_flower_would_send_it_and_arrives(array):
    array = np.asarray(array)
    ours, theirs = encode({"a": array}), ArrayRecord({"a": Array(array)})
    for field in ("dtype", "shape", "stype"):
        assert getattr(ours["a"], field) == getattr(theirs["a"], field)
    np.testing.assert_array_equal(ours["a"].numpy(), theirs["a"].numpy())
    for sent in (ours, theirs):
        received = decode(sent, specs({"a": array}))["a"]
        np.testing.assert_array_equal(received, array)
        assert received.dtype == array.dtype


def test_a_tied_weight_travels_once_and_is_loaded_under_both_names():
    model = Tied()
    arrays = state_arrays(model)
    assert set(arrays) == {"first.weight", "count", "frozen"}
    arrays["first.weight"] = np.full((3, 3), 2, np.float32)
    load_arrays(model, arrays)
    assert torch.equal(model.second.weight, torch.full((3, 3), 2.0))


def test_arrays_are_copies():
    model = nn.Linear(2, 2)
    arrays = state_arrays(model)
    before = arrays["bias"].copy()
    with torch.no_grad():
        model.bias.add_(1)
    np.testing.assert_array_equal(arrays["bias"], before)


WANTED = {"w": ArraySpec((2,), np.dtype(np.float32))}
GOOD = Array(np.zeros(2, np.float32)).data


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("w", np.zeros(3, np.float32), "expected \\(2,\\)"),
        ("w", np.zeros(2, np.float64), "expected \\(2,\\) float32"),
        ("w", np.array([1, np.inf], np.float32), "not finite"),
        ("w", np.array([np.nan, 0], np.float32), "not finite"),
        ("bias", np.zeros(2, np.float32), r"missing \['w'\], unknown \['bias'\]"),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_refused(name, array, words):
    with pytest.raises(ConfigError, match=words):
        decode(encode({name: array}), WANTED)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD + b"0", "not as long"),
        (GOOD[:-1], "not as long"),
        *(
            (other, "not in NumPy's format")
            for other in (
                b"",
                b"junk",
                Array(np.zeros(3, np.float32)).data,
                Array(np.zeros(2, np.int32)).data,
                GOOD.replace(b"(2,)", b"(9,)"),
                b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16,
            )
        ),
    ],
)
def test_data_that_contradict_their_label_are_refused(data, words):
    with pytest.raises(ConfigError, match=words):
        decode(ArrayRecord({"w": Array("float32", (2,), "numpy.ndarray", data)}), WANTED)
