"""torchvision's data sets: their download, the IDX files of MNIST, and CIFAR's pickles."""

import gzip
import hashlib
import os
import pickle
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock, Timeout

from fl_dp.data.sources.torchvision import exclusive, fetch, load_cifar, load_mnist, read_idx
from fl_dp.errors import DataError

FILES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
HEAD = b"\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x04"  # of 2 x 3 x 4 bytes
KIND = "expected an IDX file of unsigned bytes in 3 dimensions"


def test_only_one_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path), pytest.raises(Timeout):
        FileLock(tmp_path / ".fl_dp.lock", timeout=0).acquire()
    FileLock(tmp_path / ".fl_dp.lock", timeout=0).acquire()


def test_a_read_only_root_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with exclusive(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_new_root_is_made_or_named(tmp_path: Path) -> None:
    with exclusive(tmp_path / "new" / "root"):
        assert (tmp_path / "new" / "root").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"data-root .*file: cannot be made"):
        exclusive(tmp_path / "file")


def test_a_dead_network_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    seen: list[float | None] = []

    def stand_in(root: Path, download: bool) -> None:
        seen.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(datasets, "MNIST", stand_in)
    before = socket.getdefaulttimeout()
    with pytest.raises(DataError, match=r"MNIST: not complete .*timed out.*Put torchvision's files"):
        fetch("MNIST", tmp_path)
    assert seen == [60.0]
    assert socket.getdefaulttimeout() == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"", KIND),
        (b"\0\0\x08", KIND),
        (b"\0\0\x0d\x03" + bytes(40), KIND),
        (b"\x1f\x8b\x08\x00" + bytes(40), KIND),
        (b"\0\0\x08\x01\0\0\0\x04" + bytes(4), KIND),  # labels in the place of images
        (HEAD + bytes(23), r"expected 40 bytes for shape \(2, 3, 4\), found 39"),
        (HEAD + bytes(25), r"expected 40 bytes for shape \(2, 3, 4\), found 41"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "images").write_bytes(content)
    with pytest.raises(DataError, match=f"images: {words}"):
        read_idx(tmp_path / "images", ndim=3)


@pytest.fixture
def mnist(tmp_path: Path, write_idx) -> Path:
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


def test_existing_files_of_mnist_are_used(mnist: Path) -> None:
    train, test = load_mnist("FashionMNIST", mnist, "train"), load_mnist("FashionMNIST", mnist, "test")
    assert (len(train), len(test)) == (6, 4)
    assert train.form.input_shape == (1, 28, 28)
    assert (train.x == 6).all()
    assert torch.equal(test.y, torch.arange(4))
    assert train.classes[1] == "Trouser"


@pytest.mark.usefixtures("no_network")
def test_archives_are_unpacked_without_a_network(mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision import datasets

    resources = []
    for name in FILES:
        file = mnist / "FashionMNIST" / "raw" / name
        packed = gzip.compress(file.read_bytes())
        file.unlink()
        file.with_name(f"{name}.gz").write_bytes(packed)
        resources.append((f"{name}.gz", hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(datasets.FashionMNIST, "resources", resources)
    assert len(load_mnist("FashionMNIST", mnist, "train")) == 6
    assert len(load_mnist("FashionMNIST", mnist, "test")) == 4


@pytest.mark.usefixtures("no_network")
def test_what_is_neither_there_nor_to_be_had_is_named(mnist: Path) -> None:
    (mnist / "FashionMNIST" / "raw" / FILES[0]).unlink()
    with pytest.raises(DataError, match=r"FashionMNIST: not complete .* the download failed .* data-root"):
        load_mnist("FashionMNIST", mnist, "train")
    assert len(load_mnist("FashionMNIST", mnist, "test")) == 4  # whose files are there


@pytest.mark.parametrize(
    ("labels", "cut", "words"),
    [
        (np.arange(6), 5, f"{FILES[0]}: expected 4720 bytes"),
        (np.arange(5), 0, f"{FILES[0]} with {FILES[1]}: Expected one int64 label for each of 6"),
        (np.full(6, 10), 0, "label in 0 to 9"),
    ],
)
def test_files_that_do_not_fit_are_named(mnist: Path, write_idx, labels, cut: int, words: str) -> None:
    images = mnist / "FashionMNIST" / "raw" / FILES[0]
    images.write_bytes(images.read_bytes()[: images.stat().st_size - cut])
    write_idx(images.with_name(FILES[1]), labels)
    with pytest.raises(DataError, match=words):
        load_mnist("FashionMNIST", mnist, "train")


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CIFAR10 in miniature: one batch of 3 training images, one of 2 test images; no network."""
    from torchvision import datasets

    def write(name: str, content: object) -> str:
        file = tmp_path / datasets.CIFAR10.base_folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(pickle.dumps(content))
        return hashlib.md5(file.read_bytes()).hexdigest()

    def batch(n: int) -> dict[str, object]:
        pixels = np.arange(n * 3072).astype(np.uint8).reshape(n, 3072)  # planes of 32x32: red, green, blue
        return {"data": pixels, "labels": list(range(n))}

    train, test = write("data_batch_1", batch(3)), write("test_batch", batch(2))
    meta = write("batches.meta", {"label_names": [f"class {k}" for k in range(10)]})
    monkeypatch.setattr(datasets.CIFAR10, "train_list", [["data_batch_1", train]])
    monkeypatch.setattr(datasets.CIFAR10, "test_list", [["test_batch", test]])
    monkeypatch.setattr(datasets.CIFAR10, "meta", {**datasets.CIFAR10.meta, "md5": meta})
    monkeypatch.setattr(datasets.CIFAR10, "url", "http://127.0.0.1:9/cifar-10-python.tar.gz")
    return tmp_path


def test_existing_files_of_cifar_are_used(cifar: Path) -> None:
    train, test = load_cifar("CIFAR10", cifar, "train"), load_cifar("CIFAR10", cifar, "test")
    assert train.form.input_shape == (3, 32, 32)
    assert (train.x.flatten() == (np.arange(3 * 3072) % 256)).all()
    assert test.y.tolist() == [0, 1]
    assert train.classes[9] == "class 9"


def test_a_damaged_file_is_not_unpickled(cifar: Path) -> None:
    with (cifar / "cifar-10-batches-py" / "data_batch_1").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match="CIFAR10: not complete in data-root"):
        load_cifar("CIFAR10", cifar, "train")
