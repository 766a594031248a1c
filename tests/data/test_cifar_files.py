import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from fl_dp.data.cifar_files import load_cifar
from fl_dp.errors import DataError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_existing_files_are_used(root: Path) -> None:
    train, test = load_cifar("CIFAR10", root, "train"), load_cifar("CIFAR10", root, "test")
    assert train.form.input_shape == (3, 32, 32)
    assert (train.x.flatten() == (np.arange(3 * 3072) % 256)).all()
    assert test.y.tolist() == [0, 1]
    assert train.classes[9] == "class 9"


def test_a_damaged_file_is_not_unpickled(root: Path) -> None:
    with (root / "cifar-10-batches-py" / "data_batch_1").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match="CIFAR10: not complete in data-root"):
        load_cifar("CIFAR10", root, "train")
