from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.data.sources.npz import load_inputs, load_npz
from fl_dp.data.tensor_data import Split
from fl_dp.errors import DataError


def arrays(**changed: Any) -> dict[str, Any]:
    """Five good arrays of colour images, with some changed, or left out by None."""
    good = {
        "x_train": np.arange(3 * 2 * 4 * 3, dtype=np.uint8).reshape(3, 2, 4, 3),
        "y_train": np.array([0, 1, 1]),
        "x_test": np.zeros((2, 2, 4, 3), dtype=np.uint8),
        "y_test": np.array([2, 0]),
        "classes": np.array(["a", "b", "c"]),
    }
    return {name: array for name, array in (good | changed).items() if array is not None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "own.npz"


def test_colour_images_become_nchw(path: Path) -> None:
    np.savez(path, **arrays())
    data = load_npz(path, "train")
    assert data.form.input_shape == (3, 2, 4)
    assert (data.x.numpy() == arrays()["x_train"].transpose(0, 3, 1, 2)).all()
    assert data.y.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("floats", "integers"), [(np.float16, np.uint8), (np.float32, np.int32), (np.float64, np.uint64)]
)
def test_numbers_of_any_width_and_rank_are_read(path: Path, floats: type, integers: type) -> None:
    for x in (np.eye(3, dtype=floats), np.arange(18).reshape(3, 3, 2).astype(floats)):
        np.savez(path, **arrays(x_train=x, y_train=np.array([0, 1, 1], dtype=integers)))
        data = load_npz(path, "train")
        assert (data.form.input_shape, data.x.dtype, data.form.vocabulary) == (x.shape[1:], torch.float32, 0)
        assert (data.x.numpy() == x).all()
        assert data.y.dtype == torch.int64


@pytest.mark.parametrize("y", [np.array([[0], [1], [1]]), np.array([False, True, True])])
def test_labels_in_a_column_and_bools_of_two_classes_are_labels(path: Path, y: Any) -> None:
    np.savez(path, **arrays(y_train=y, classes=np.array(["no", "yes"])))
    assert load_npz(path, "train").y.tolist() == [0, 1, 1]
    np.savez(path, **arrays(y_train=y, classes=None))
    with pytest.raises(DataError, match="expected the array classes"):
        load_npz(path, "train")


@pytest.mark.parametrize("split", ["train", "test"])
def test_no_label_says_how_many_classes_there_are(path: Path, split: Split) -> None:
    """It would be fitted on records: a client with a rare class would tell it by the model's width."""
    np.savez(path, **arrays(classes=None))
    with pytest.raises(DataError, match=r"own\.npz.*expected the array classes, with a name for each"):
        load_npz(path, split)


@pytest.mark.parametrize("name", ["user", "groups_trian", "x", "arr_0"])
def test_an_unknown_array_is_refused_by_name(path: Path, name: str) -> None:
    """One that says whose record it is, and is passed over, would count records where persons should be."""
    np.savez(path, **arrays(), **{name: np.arange(3)})
    with pytest.raises(DataError, match=rf"unknown arrays {name}; known are x_train, .*groups_train"):
        load_npz(path, "train")
    np.savez(path, x=np.eye(3), user=np.arange(3))  # for predictions, where others do not count
    assert load_inputs(path).shape == (3, 3)


def test_a_client_may_hold_only_its_training_part(path: Path) -> None:
    np.savez(path, **arrays(x_test=None, y_test=None, classes=np.array(["cat", "dog", "eel", "fox"])))
    assert load_npz(path, "train").classes == ("cat", "dog", "eel", "fox")
    with pytest.raises(DataError, match=r"own\.npz: expected arrays x_test, y_test"):
        load_npz(path, "test")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_train": None}, r"expected arrays x_train\."),
        ({"y_train": np.array([0, 1])}, "one int64 label for each of 3"),
        ({"y_train": np.array([0, 1, 77]), "classes": np.array(["a", "b"])}, "label in 0 to 1"),
        ({"y_train": np.array(["secret", None, 1], dtype=object)}, "not a plain array: it holds objects"),
        ({"x_train": np.array([[0], [1], [77]]), "vocabulary": np.array(9)}, "every token in 0 to 8"),
        ({"y_train": np.array(["a", "b", "c"])}, "y_train: holds texts; write integers"),
        (
            {"y_train": np.array([0.0, 1, np.nan])},
            r"not 3: the labels are floats.*integers: .*astype\(int\).*; leave out records without",
        ),
        ({"y_train": np.array([True, True, False])}, r"not torch\.bool of shape \(3,\)"),  # of three classes
        ({"y_train": np.eye(3, dtype=int)}, r"y_train: integers of shape \(3, 3\).*argmax\(1\).*float32"),
        ({"x_train": np.zeros((3, 8, 8, 3))}, r"split train: Inputs .*x\.transpose\(0, 3, 1, 2\)"),
        ({"x_train": np.zeros(3)}, r"x_train: expected uint8 images .* not float64 of shape \(3,\)"),
        ({"x_train": np.zeros((3, 2), dtype=int)}, "declares no vocabulary; add the array vocabulary"),
        (
            {"x_train": np.eye(3), "vocabulary": np.array(9)},
            "vocabulary = 9: expected the number of tokens if",
        ),
        ({"vocabulary": np.array([9])}, "vocabulary: expected one integer >= 1"),
        ({"vocabulary": np.array(0)}, "vocabulary: expected one integer >= 1"),
        ({"groups_train": np.array([0.5, 1, 2])}, r"expected names or integers \(n,\), not float64"),
        ({"groups_train": np.array([["a"], ["b"], ["c"]])}, r"groups_train: .* of shape \(3, 1\)"),
        ({"x_train": np.zeros((3, 2, 4, 3), dtype=np.int64)}, "x_train: expected uint8 images"),
        (
            {"x_train": np.zeros((3, 3, 32, 32), np.uint8)},
            r"not uint8 of shape \(3, 3, 32.*x\.transpose\(0, 2, 3, 1\)",
        ),
        ({"x_train": np.full((3, 2), 1e300)}, "finite features"),
    ],
)
def test_mis_shaped_arrays_are_refused_by_name(path: Path, changed: dict[str, Any], words: str) -> None:
    np.savez(path, **arrays(**changed))
    with pytest.raises(DataError, match=rf"own\.npz.*{words}") as error:
        load_npz(path, "train")
    said = str(error.value).replace(str(path), "")  # a temporary folder's name has numbers, too
    assert "77" not in said
    assert "secret" not in said


def test_another_kind_of_file_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match=r"own\.npz: no such file"):
        load_npz(path, "train")
    for content in (b"", b"text, not arrays"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"own\.npz: expected a readable \.npz file"):
            load_npz(path, "train")
    np.save(path.with_suffix(".npy"), np.zeros(3))
    with pytest.raises(DataError, match="not one array"):
        load_npz(path.with_suffix(".npy"), "train")


@pytest.mark.parametrize(
    ("shape", "read"),
    [
        ((2, 5, 6), (1, 5, 6)),
        ((2, 5, 5, 5), (5, 5, 5)),
        ((2, 4, 4, 4), (4, 4, 4)),
        ((2, 1, 9, 4), (4, 1, 9)),
        ((2, 4, 5, 5), None),
        ((2, 1, 28, 28), None),
        ((2, 3, 32, 32), None),
    ],
)
def test_images_that_may_be_nhwc_are_read_so_and_others_refused(path: Path, shape, read) -> None:
    np.savez_compressed(path, **arrays(x_test=np.zeros(shape, dtype=np.uint8)))
    if read:
        assert load_npz(path, "test").form.input_shape == read
    else:
        with pytest.raises(DataError, match=r"x_test: expected uint8 images \(n, H, W\) or \(n, H, W, C\)"):
            load_npz(path, "test")


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_tokens_of_a_declared_vocabulary_and_next_ones(path: Path, dtype: type) -> None:
    tokens = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]], dtype=dtype)
    np.savez(path, **arrays(x_train=tokens, vocabulary=np.array(9)))
    data = load_npz(path, "train")
    assert (data.x.dtype, data.vocabulary, data.form.targets) == (torch.int64, 9, "class")
    assert data.x.tolist() == tokens.tolist()
    np.savez(path, **arrays(x_train=tokens, y_train=tokens + 1, vocabulary=np.array(10), classes=None))
    data = load_npz(path, "train")
    assert (data.form.targets, data.form.outputs) == ("tokens", 10)
    assert data.y.tolist() == (tokens + 1).tolist()


@pytest.mark.parametrize(("shape", "outputs"), [((3,), 1), ((3, 4), 4)])
def test_numbers_to_predict(path: Path, shape: tuple[int, ...], outputs: int) -> None:
    y = np.random.default_rng(0).normal(size=shape)
    np.savez(path, **arrays(y_train=y, y_test=None, x_test=None, classes=None))
    data = load_npz(path, "train")
    assert (data.form.targets, data.form.outputs, data.classes) == ("numbers", outputs, ())
    assert data.y.shape == shape


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (np.array(["north", "south", "north"]), ("north", "south", "north")),
        (np.array([7, 7, 8]), ("7", "7", "8")),
    ],
)
def test_groups_come_with_their_records(path: Path, groups: np.ndarray, names: tuple[str, ...]) -> None:
    np.savez(path, **arrays(groups_train=groups))
    assert load_npz(path, "train").groups == names
    assert load_npz(path, "test").groups == ()


@pytest.mark.usefixtures("little_memory")
def test_a_vocabulary_that_no_model_has_is_refused_before_its_tokens_are_named(path: Path) -> None:
    tokens = np.zeros((3, 4), dtype=np.int64)
    np.savez(path, x_train=tokens, y_train=tokens, vocabulary=np.array(2**40))
    with pytest.raises(DataError, match="Expected 1048576 tokens in the vocabulary at most"):
        load_npz(path, "train")
