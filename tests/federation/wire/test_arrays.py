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


def sent(**arrays):
    return encode(arrays), specs(arrays)


def test_all_layouts_and_types_arrive():
    arrays = {
        "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
        "scalar": np.array(3, np.int64),
        "empty": np.zeros((0, 4), np.float32),
    }
    received = decode(encode(arrays), specs(arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(received[name], array)
        assert received[name].dtype == array.dtype


def test_columns_first_as_flower_sends_them():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    received = decode(ArrayRecord({"a": Array(array)}), specs({"a": array}))
    np.testing.assert_array_equal(received["a"], array)


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


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(3, np.float32), "expected \\(2,\\)"),
        (np.zeros(2, np.float64), "expected \\(2,\\) float32"),
        (np.array([1, np.inf], np.float32), "not finite"),
        (np.array([np.nan, 0], np.float32), "not finite"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(array, words):
    with pytest.raises(ConfigError, match=words):
        decode(encode({"w": array}), {"w": ArraySpec((2,), np.dtype(np.float32))})


WANTED = {"w": ArraySpec((2,), np.dtype(np.float32))}


def labelled(data):
    """A record whose label says what is wanted, whatever the data are."""
    return ArrayRecord({"w": Array("float32", (2,), "numpy.ndarray", data)})


def test_data_longer_or_shorter_than_the_label_says_are_refused():
    data = Array(np.zeros(2, np.float32)).data
    for wrong in (data + b"0", data[:-1]):
        with pytest.raises(ConfigError, match="not as long"):
            decode(labelled(wrong), WANTED)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        Array(np.zeros(3, np.float32)).data,
        Array(np.zeros(2, np.int32)).data,
        Array(np.zeros(2, np.float32)).data.replace(b"(2,)", b"(9,)"),
        b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16,
    ],
)
def test_data_in_another_format_than_the_label_says_are_refused(data):
    with pytest.raises(ConfigError, match="not in NumPy's format"):
        decode(labelled(data), WANTED)


def test_names_must_be_the_models():
    record, _ = sent(w=np.zeros(2, np.float32))
    with pytest.raises(ConfigError, match=r"missing \['bias'\], unknown \['w'\]"):
        decode(record, {"bias": ArraySpec((2,), np.dtype(np.float32))})


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3.5), np.zeros((0, 4)), np.arange(6, dtype=np.int64).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(8.0)[::2], np.array([True, False]),
        np.arange(3, dtype=">f4"), np.ones(3, np.float16),
    ],
)  # fmt: skip
def test_an_array_travels_as_flower_would_send_it(array):
    ours, theirs = encode({"a": array})["a"], Array(np.asarray(array))
    assert (ours.dtype, ours.shape, ours.stype) == (theirs.dtype, theirs.shape, theirs.stype)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
