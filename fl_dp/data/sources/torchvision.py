"""torchvision's data sets of images: downloaded once, by one process at a time, and read from `data-root`."""

import http.client
import math
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from fl_dp.data.source import Source
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError, located
from fl_dp.optional import require_package

_SILENCE = 60.0  # seconds without a byte after which a download has failed
_UINT8 = 0x08  # in the header of an IDX file
_CLASSES = {
    "MNIST": tuple(str(digit) for digit in range(10)),
    "FashionMNIST": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}


def exclusive(root: Path) -> AbstractContextManager[object]:
    """Lock `root` while files are looked for or downloaded, so that no process reads half a file.

    A read-only `root` is not locked: nobody downloads there.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"data-root {root}: cannot be made: {error.strerror}.") from None
    return FileLock(root / ".fl_dp.lock") if os.access(root, os.W_OK) else nullcontext()


def fetch(set_name: str, root: Path, **options: bool) -> Any:
    """torchvision's data set `set_name`, unpacked from archives in `root` or downloaded; else DataError.

    Call it under `exclusive(root)`. Progress goes to stderr.
    """
    require_package("torchvision", f"{set_name}, where it is unpacked or downloaded,")
    from torchvision import datasets  # late: it is optional, and takes 1.3 s

    try:
        with _give_up_after(_SILENCE):
            return getattr(datasets, set_name)(root, download=True, **options)
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        cause = " ".join(str(error).split())
        raise DataError(
            f"{set_name}: not complete in data-root {root}, and the download failed ({cause}). "
            f"Put torchvision's files for {set_name} there, or let data-root name a folder that has them."
        ) from None


@contextmanager
def _give_up_after(seconds: float) -> Iterator[None]:
    """A timeout for every new socket: without one torchvision would wait for ever for a dead network."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def read_idx(path: Path, ndim: int) -> Tensor:
    """The uint8 tensor of `ndim` dimensions in an unpacked IDX file: big-endian sizes, then bytes.

    DataError, which names the file, if it cannot be read, is no such file, or is longer or shorter than its
    header says. torchvision's reader accepts surplus bytes, its errors do not name the file, and importing it
    takes 1.3 s.
    """
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    start = 4 + 4 * ndim
    if len(content) < start or content[:4].tobytes() != bytes((0, 0, _UINT8, ndim)):
        raise DataError(f"{path}: expected an IDX file of unsigned bytes in {ndim} dimensions.")
    shape = struct.unpack(f">{ndim}I", content[4:start].tobytes())
    if len(content) != start + math.prod(shape):
        raise DataError(
            f"{path}: expected {start + math.prod(shape)} bytes for shape {shape}, found {len(content)}; "
            f"delete it, so that it is unpacked or downloaded again."
        )
    return torch.from_numpy(content[start:].reshape(shape))


def load_mnist(set_name: str, root: Path, split: Split) -> TensorData:
    """One split of "MNIST" or "FashionMNIST", uint8 (n, 1, H, W), from torchvision's IDX files; downloaded if
    missing.
    """
    raw = root / set_name / "raw"
    prefix = "train" if split == "train" else "t10k"
    image_file, label_file = raw / f"{prefix}-images-idx3-ubyte", raw / f"{prefix}-labels-idx1-ubyte"
    with exclusive(root):
        if not (image_file.is_file() and label_file.is_file()):
            fetch(set_name, root)
    images, labels = read_idx(image_file, ndim=3), read_idx(label_file, ndim=1)
    with located(f"{image_file} with {label_file.name}"):
        return TensorData(images.unsqueeze(1), labels.long(), _CLASSES[set_name])


def load_cifar(set_name: str, root: Path, split: Split) -> TensorData:
    """One split of "CIFAR10" or "CIFAR100", uint8 (n, 3, 32, 32); downloaded if missing.

    Through torchvision, which checks the files' MD5 before it unpickles them.
    """
    with exclusive(root):
        cifar = fetch(set_name, root, train=split == "train")
    images = torch.from_numpy(cifar.data).permute(0, 3, 1, 2).contiguous()  # from (n, 32, 32, 3)
    return TensorData(images, torch.tensor(cifar.targets), tuple(cifar.classes))


def _mnist(name: str) -> Source:
    return Source(lambda location, split: load_mnist(name, location.root, split), public=True)


def _cifar(name: str) -> Source:
    return Source(lambda location, split: load_cifar(name, location.root, split), public=True)


CHOICES = {
    "mnist": _mnist("MNIST"),  # 70,000 handwritten digits, grey, 28x28
    "fashion_mnist": _mnist("FashionMNIST"),  # 70,000 images of clothes, grey, 28x28
    "cifar10": _cifar("CIFAR10"),  # 60,000 colour photographs of 10 kinds of things, 32x32
    "cifar100": _cifar("CIFAR100"),  # the same of 100 kinds
}
