from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.data.sources.npz import load_npz
from fl_dp.errors import DataError


def arrays(**changed: Any) -> dict[str, Any]:
    """Four good arrays of colour images, with some changed, or left out by None."""
    good = {
        "x_train": np.arange(3 * 2 * 4 * 3, dtype=np.uint8).reshape(3, 2, 4, 3),
        "y_train": np.array([0, 1, 1]),
        "x_test": np.zeros((2, 2, 4, 3), dtype=np.uint8),
        "y_test": np.array([2, 0]),
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


def test_grey_images_get_a_channel(path: Path) -> None:
    np.savez_compressed(path, **arrays(x_test=np.zeros((2, 5, 6), dtype=np.uint8)))
    assert load_npz(path, "test").form.input_shape == (1, 5, 6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_features(path: Path, dtype: type) -> None:
    np.savez(path, **arrays(x_train=np.eye(3, dtype=dtype)))
    data = load_npz(path, "train")
    assert torch.equal(data.x, torch.eye(3))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_any_integer_labels(path: Path, dtype: type) -> None:
    np.savez(path, **arrays(y_train=np.array([0, 1, 1], dtype=dtype)))
    assert load_npz(path, "train").y.dtype == torch.int64


def test_both_splits_agree_on_the_classes(path: Path) -> None:
    np.savez(path, **arrays())
    assert load_npz(path, "train").classes == load_npz(path, "test").classes == ("0", "1", "2")


def test_names_of_classes_are_used(path: Path) -> None:
    np.savez(path, **arrays(classes=np.array(["cat", "dog", "eel", "fox"])))
    assert load_npz(path, "train").classes == ("cat", "dog", "eel", "fox")


def test_a_client_may_hold_only_its_training_part(path: Path) -> None:
    np.savez(path, **arrays(x_test=None, y_test=None, classes=np.arange(10)))
    assert load_npz(path, "train").form.outputs == 10
    with pytest.raises(DataError, match=r"own\.npz: expected arrays x_test, y_test"):
        load_npz(path, "test")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_train": None}, r"expected arrays x_train\."),
        ({"y_train": np.array([0, 1])}, "one int64 label for each of 3"),
        ({"y_train": np.array([0, 1, -1])}, "label in 0 to 2"),
        ({"y_train": np.array([0, 1, 9]), "classes": np.array(["a", "b"])}, "label in 0 to 1"),
        ({"y_train": np.array([0.0, 1, 1])}, r"y_train: expected integer labels \(n,\), not float64"),
        ({"y_train": np.array([[0], [1], [1]])}, r"not int64 of shape \(3, 1\)"),
        (
            {"x_train": np.zeros((3, 2, 4, 3))},
            r"x_train: expected uint8 images .* not float64 of shape \(3, 2, 4, 3\)",
        ),
        ({"x_train": np.zeros((3, 2, 4, 3), dtype=np.int64)}, "x_train: expected uint8 images"),
        (
            {"x_train": np.zeros((3, 3, 32, 32), dtype=np.uint8)},
            r"\(n, H, W, C\).* not uint8 of shape \(3, 3, 32, 32\)",
        ),
        (
            {"x_train": np.zeros((0, 4, 4), dtype=np.uint8), "y_train": np.zeros(0, dtype=int)},
            "at least one example",
        ),
        ({"x_train": np.full((3, 2), np.nan)}, "finite features"),
        ({"x_train": np.full((3, 2), 1e300)}, "finite features"),
    ],
)
def test_mis_shaped_arrays_are_refused_by_name(path: Path, changed: dict[str, Any], words: str) -> None:
    np.savez(path, **arrays(**changed))
    with pytest.raises(DataError, match=rf"own\.npz.*{words}"):
        load_npz(path, "train")


def test_no_error_tells_a_value(path: Path) -> None:
    np.savez(path, **arrays(y_train=np.array([0, 1, 77]), classes=np.arange(10)))
    with pytest.raises(DataError) as error:
        load_npz(path, "train")
    assert "77" not in str(error.value)


def test_pickled_objects_are_refused(path: Path) -> None:
    np.savez(path, **arrays(x_train=np.array([{}, {}, {}], dtype=object)))
    with pytest.raises(DataError, match=r"own\.npz: expected a readable \.npz file of plain arrays"):
        load_npz(path, "train")


def test_a_truncated_file_is_named(path: Path) -> None:
    np.savez(path, **arrays())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"own\.npz: expected a readable \.npz file"):
        load_npz(path, "train")


def test_flipped_bytes_are_noticed(path: Path) -> None:
    np.savez(path, **arrays(x_train=np.zeros((3, 50, 50), dtype=np.uint8)))
    content = bytearray(path.read_bytes())
    content[1000:1010] = b"\xff" * 10
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"own\.npz: expected a readable \.npz file"):
        load_npz(path, "train")


@pytest.mark.parametrize("content", [b"", b"text, not arrays"])
def test_another_kind_of_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"own\.npz: expected a readable \.npz file"):
        load_npz(path, "train")


def test_one_bare_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.zeros(3))
    with pytest.raises(DataError, match="not one array"):
        load_npz(tmp_path / "own.npy", "train")


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(DataError, match=r"own\.npz: no such file"):
        load_npz(path, "train")


@pytest.mark.parametrize(("shape", "channels"), [((2, 5, 5, 5), 5), ((2, 4, 4, 4), 4), ((2, 1, 9, 4), 4)])
def test_images_that_may_be_nhwc_are_read_so(path: Path, shape: tuple[int, ...], channels: int) -> None:
    np.savez(path, **arrays(x_test=np.zeros(shape, dtype=np.uint8)))
    assert load_npz(path, "test").form.input_shape == (channels, *shape[1:3])


@pytest.mark.parametrize("shape", [(2, 4, 5, 5), (2, 1, 28, 28), (2, 3, 32, 32)])
def test_images_that_must_be_nchw_are_refused(path: Path, shape: tuple[int, ...]) -> None:
    np.savez(path, **arrays(x_test=np.zeros(shape, dtype=np.uint8)))
    with pytest.raises(DataError, match=r"x_test: expected uint8 images \(n, H, W\) or \(n, H, W, C\)"):
        load_npz(path, "test")
