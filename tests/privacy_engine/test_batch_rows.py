"""Rows of batches in any structure."""

import pytest
import torch
from transformers import BatchEncoding

from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.batch_rows import num_rows, rows_of

X, Y = torch.arange(12.0).view(6, 2), torch.arange(6)


def test_rows_are_taken_of_tensors_and_lists_of_values_at_any_depth():
    batch = {"x": X, "more": [(Y, ["a", "b", "c", "d", "e", "f"]), {"z": Y}], "scale": 2.0, "none": None}
    assert num_rows(batch) == 6
    found = rows_of(batch, slice(1, 3))
    assert found["x"].tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert (found["more"][0][0].tolist(), found["more"][0][1]) == ([1, 2], ["b", "c"])
    assert found["more"][1]["z"].tolist() == [1, 2]
    assert (found["scale"], found["none"], len(batch["x"])) == (2.0, None, 6)


def test_an_encoding_of_texts_keeps_its_type_and_methods():
    found = rows_of(BatchEncoding({"input_ids": X, "attention_mask": Y}), slice(2))
    assert isinstance(found, BatchEncoding)
    assert found.to("cpu")["input_ids"].tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_no_rows_hold_no_memory_of_the_batch():
    found = rows_of([X, (Y,)], slice(0))
    assert [found[0].shape, found[1][0].shape] == [(0, 2), (0,)]
    assert found[0].untyped_storage().nbytes() == 0
    assert num_rows(found) == num_rows(()) == 0


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ((X, torch.ones(3)), r"6 rows at \[0\] and 3 at \[1\]"),
        ({"x": X, "names": ["a"]}, r"6 rows at \['x'\] and 1 at \['names'\]"),
        ((X, torch.tensor(1.0)), "a tensor without rows, which cannot be cut"),
        ((X, object()), "holds object, which cannot be cut"),
        ((X, [Y, object()]), "holds object"),
    ],
)
def test_what_has_no_rows_or_others_is_refused_by_its_place(batch, words):
    with pytest.raises(ConfigError, match=words):
        num_rows(batch)
