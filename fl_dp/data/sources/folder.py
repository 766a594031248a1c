"""A folder of images: one folder per class, in train/ and test/ or split by name."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fl_dp.data.source import Source
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
_FOLD = 5  # without train/ and test/, one image in five is a test image


def load_folder(path: Path, split: Split) -> TensorData:
    """One split of the images under `path`, uint8 (n, C, H, W); classes are the sorted folder names.

    | layout                                        | the split of an image                          |
    |-----------------------------------------------|------------------------------------------------|
    | PATH/train/<class>/..., PATH/test/<class>/... | its folder                                     |
    | PATH/<class>/...                              | a hash of <class>/<name>: 80% train, 20% test  |

    All images have one size and one colour mode, L or RGB. Hidden files, and files without an
    image's suffix, are left out. An empty class folder declares a class without examples.
    Anything else raises DataError that names the file or folder.
    """
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected one folder of images per class.")
    tops = [path / name for name in ("train", "test") if (path / name).is_dir()]
    classes = sorted({folder.name for top in tops or [path] for folder in _folders(top)})
    if tops:
        files = [(label, file) for label, name in enumerate(classes) for file in _images(path / split / name)]
    else:
        files = [
            (label, file)
            for label, name in enumerate(classes)
            for file in _images(path / name)
            if _split_by_name(f"{name}/{file.name}") == split
        ]
    if not files:
        raise DataError(f"{path}: no {split} images; expected one folder of images per class.")
    labels = torch.tensor([label for label, _ in files])
    return TensorData(_stack([file for _, file in files]), labels, tuple(classes))


def _folders(top: Path) -> list[Path]:
    return [entry for entry in top.iterdir() if entry.is_dir() and not entry.name.startswith(".")]


def _images(folder: Path) -> list[Path]:
    """Images at any depth, sorted: file systems list them in orders of their own."""
    found = (file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    return sorted(file for file in found if not file.name.startswith("."))


def _split_by_name(name: str) -> Split:
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
    return "test" if int.from_bytes(digest[:8], "big") % _FOLD == 0 else "train"


def _stack(files: list[Path]) -> torch.Tensor:
    """uint8 (n, C, H, W); every image must be like the first."""
    first = _pixels(files[0])
    stacked = np.empty((len(files), *first.shape), dtype=np.uint8)  # (n, H, W) or (n, H, W, 3)
    for row, file in enumerate(files):
        pixels = _pixels(file)
        if pixels.shape != first.shape:
            raise DataError(
                f"{file}: expected an image of shape {first.shape} (height, width, channels) "
                f"like {files[0].name}, not {pixels.shape}."
            )
        stacked[row] = pixels
    if stacked.ndim == 3:
        return torch.from_numpy(stacked).unsqueeze(1)
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).contiguous()


def _pixels(file: Path) -> np.ndarray:
    """uint8 (H, W) of a grey image or (H, W, 3) of a colour image."""
    try:
        with Image.open(file) as image:
            mode = image.mode
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises
        raise DataError(f"{file}: expected a readable image ({type(error).__name__}).") from None
    if mode not in ("L", "RGB"):
        raise DataError(f"{file}: expected an image of colour mode L or RGB, not {mode}.")
    return pixels


SOURCE = Source(lambda location, split: load_folder(location.path, split), argument="PATH", is_path=True)
