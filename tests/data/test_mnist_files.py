import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from fl_dp.data.mnist_files import load_mnist
from fl_dp.errors import DataError

FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


@pytest.fixture
def root(tmp_path: Path, write_idx) -> Path:
    """FashionMNIST in miniature: 6 training images, 4 test images."""
    raw = tmp_path / "FashionMNIST" / "raw"
    for prefix, n in (("train", 6), ("t10k", 4)):
        write_idx(raw / f"{prefix}-images-idx3-ubyte", np.full((n, 28, 28), n))
        write_idx(raw / f"{prefix}-labels-idx1-ubyte", np.arange(n))
    return tmp_path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Port 9 of this machine, where nobody listens, in the place of the mirrors."""
    from torchvision import datasets

    for dataset in (datasets.MNIST, datasets.FashionMNIST):
        monkeypatch.setattr(dataset, "mirrors", ["http://127.0.0.1:9/"])


def test_existing_files_are_used(root: Path) -> None:
    train, test = load_mnist("FashionMNIST", root, "train"), load_mnist("FashionMNIST", root, "test")
    assert (len(train), len(test)) == (6, 4)
    assert train.form.input_shape == (1, 28, 28)
    assert (train.x == 6).all()
    assert torch.equal(test.y, torch.arange(4))
    assert train.classes[1] == "Trouser"


@pytest.mark.usefixtures("no_network")
def test_archives_are_unpacked_without_a_network(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    resources = []
    for name in FILES:
        file = root / "FashionMNIST" / "raw" / name
        packed = gzip.compress(file.read_bytes())
        file.unlink()
        file.with_name(f"{name}.gz").write_bytes(packed)
        resources.append((f"{name}.gz", hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(datasets.FashionMNIST, "resources", resources)
    assert len(load_mnist("FashionMNIST", root, "train")) == 6
    assert len(load_mnist("FashionMNIST", root, "test")) == 4


@pytest.mark.usefixtures("no_network")
def test_what_is_neither_there_nor_to_be_had_is_named(root: Path) -> None:
    (root / "FashionMNIST" / "raw" / FILES[0]).unlink()
    with pytest.raises(DataError, match=r"FashionMNIST: not complete .* the download failed .* data-root"):
        load_mnist("FashionMNIST", root, "train")
    assert len(load_mnist("FashionMNIST", root, "test")) == 4  # whose files are there


@pytest.mark.parametrize(
    ("labels", "cut", "words"),
    [
        (np.arange(6), 5, f"{FILES[0]}: expected 4720 bytes"),
        (np.arange(5), 0, f"{FILES[0]} with {FILES[1]}: Expected one int64 label for each of 6"),
        (np.full(6, 10), 0, "label in 0 to 9"),
    ],
)
def test_files_that_do_not_fit_are_named(root: Path, write_idx, labels, cut: int, words: str) -> None:
    images = root / "FashionMNIST" / "raw" / FILES[0]
    images.write_bytes(images.read_bytes()[: images.stat().st_size - cut])
    write_idx(images.with_name(FILES[1]), labels)
    with pytest.raises(DataError, match=words):
        load_mnist("FashionMNIST", root, "train")


@pytest.mark.parametrize(("set_name", "last"), [("MNIST", "9"), ("FashionMNIST", "Ankle boot")])
def test_there_are_ten_classes(tmp_path: Path, write_idx, set_name: str, last: str) -> None:
    """As many as outputs of the model: whatever labels a file has."""
    raw = tmp_path / set_name / "raw"
    write_idx(raw / "train-images-idx3-ubyte", np.zeros((2, 28, 28)))
    write_idx(raw / "train-labels-idx1-ubyte", np.zeros(2))
    data = load_mnist(set_name, tmp_path, "train")
    assert (data.form.outputs, data.classes[-1]) == (10, last)
