from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_dp.data.source import load_data
from fl_dp.errors import DataError


def test_digits_need_no_root() -> None:
    assert load_data("digits", Path("/nowhere"), "train").input_shape == (1, 8, 8)


def test_a_set_is_loaded_once_per_process() -> None:
    first = load_data("digits", Path("data"), "test")
    assert load_data("digits", Path("data"), "test") is first
    assert load_data("digits", Path("data"), "train") is not first


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")])
def test_torchvisions_layout_under_data_root(tmp_path: Path, write_idx, name: str, folder: str) -> None:
    write_idx(tmp_path / folder / "raw" / "t10k-images-idx3-ubyte", np.zeros((2, 28, 28)))
    write_idx(tmp_path / folder / "raw" / "t10k-labels-idx1-ubyte", np.arange(2))
    assert len(load_data(name, tmp_path, "test")) == 2


def test_paths_start_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "own.npz", x_train=np.eye(3), y_train=np.arange(3))
    (tmp_path / "images" / "train" / "cat").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "images" / "train" / "cat" / "1.png")
    monkeypatch.chdir(tmp_path)
    assert len(load_data("npz:own.npz", Path("data"), "train")) == 3
    assert len(load_data("folder:images", Path("data"), "train")) == 1
    monkeypatch.chdir("/")
    with pytest.raises(DataError, match=r"/own\.npz: no such file"):
        load_data("npz:own.npz", Path("data"), "train")
    assert len(load_data(f"npz:{tmp_path}/own.npz", Path("data"), "train")) == 3


@pytest.mark.parametrize("name", ["digit", "", "npz", "npz:", "folder:", "digits:x", "cifar10:x"])
def test_an_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(
        DataError, match=r"unknown data set; expected digits, mnist, .*, npz:PATH, folder:PATH"
    ):
        load_data(name, Path("data"), "train")
