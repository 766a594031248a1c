"""MNIST and FashionMNIST: the IDX files that torchvision keeps in ROOT/<set>/raw."""

from pathlib import Path

from fl_dp.data.download import exclusive, fetch
from fl_dp.data.idx import read_idx
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

_CLASSES = {
    "MNIST": tuple(str(digit) for digit in range(10)),
    "FashionMNIST": (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
}  # fmt: skip


def load_mnist(set_name: str, root: Path, split: Split) -> TensorData:
    """One split of "MNIST" or "FashionMNIST", uint8 (n, 1, H, W); downloaded if missing."""
    raw = root / set_name / "raw"
    prefix = "train" if split == "train" else "t10k"
    image_file, label_file = raw / f"{prefix}-images-idx3-ubyte", raw / f"{prefix}-labels-idx1-ubyte"
    with exclusive(root):
        if not (image_file.is_file() and label_file.is_file()):
            fetch(set_name, root)
    images, labels = read_idx(image_file, ndim=3), read_idx(label_file, ndim=1)
    try:
        return TensorData(images.unsqueeze(1), labels.long(), _CLASSES[set_name])
    except DataError as error:
        raise DataError(f"{image_file} with {label_file.name}: {error}") from None
