"""A user's own arrays in one NumPy .npz file: x_train, y_train, x_test, y_test, and maybe classes."""

import zipfile
import zlib
from collections.abc import Set
from pathlib import Path

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from torch import Tensor

from fl_dp.data.source import Source
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import DataError

_MAX_CHANNELS = 4  # of an image: a longer last axis behind a short second one is a width, so NCHW


def load_npz(path: Path, split: Split) -> TensorData:
    """One split of the file at `path`.

    | array                          | form                                                     |
    |--------------------------------|----------------------------------------------------------|
    | `x_train`, `x_test`            | uint8 images NHWC or NHW, or float features (n, d)       |
    | `y_train`, `y_test`            | integer labels (n,), 0 to number of classes - 1          |
    | `classes`, may be left out     | one name per label; else 0 to the largest label in the file |

    A file that holds only one client's part should have `classes`: the client may lack the largest label,
    and its number of classes must be the server's. A missing, damaged or mis-shaped file raises DataError
    that names it.
    """
    arrays = _read(path, split)
    try:
        x, y = _inputs(f"x_{split}", arrays), _labels(f"y_{split}", arrays)
        return TensorData(x, y, _classes(arrays))
    except DataError as error:
        raise DataError(f"{path}, split {split}: {error}") from None


def _read(path: Path, split: Split) -> dict[str, np.ndarray]:
    """The split's two arrays, and those that say which classes there are."""
    return _arrays(path, {f"x_{split}", f"y_{split}"}, {"classes", "y_train", "y_test"})


def _arrays(path: Path, needed: set[str], welcome: Set[str] = frozenset()) -> dict[str, np.ndarray]:
    """The arrays that are needed, and those of the welcome ones that are there."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)  # a pickle could run code
            if not isinstance(archive, NpzFile):
                raise DataError(f"{path}: expected an .npz file of several arrays, not one array.")
            if missing := needed - set(archive.files):
                raise DataError(f"{path}: expected arrays {', '.join(sorted(missing))}.")
            wanted = needed | (welcome & set(archive.files))
            return {name: archive[name] for name in sorted(wanted)}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected an .npz file.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path}: expected a readable .npz file of plain arrays ({type(error).__name__})."
        ) from None


def _inputs(name: str, arrays: dict[str, np.ndarray]) -> Tensor:
    x = arrays[name]
    if x.dtype == np.uint8 and x.ndim == 3:
        return torch.from_numpy(x).unsqueeze(1)
    if x.dtype == np.uint8 and x.ndim == 4 and not _looks_like_nchw(x):
        return torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
    if np.issubdtype(x.dtype, np.floating) and x.ndim == 2:
        with np.errstate(over="ignore"):  # too large for float32 becomes inf, which TensorData refuses
            return torch.from_numpy(x.astype(np.float32, copy=False))
    raise DataError(
        f"{name}: expected uint8 images (n, H, W) or (n, H, W, C), or float features (n, d), "
        f"not {x.dtype} of shape {x.shape}."
    )


def _looks_like_nchw(images: np.ndarray) -> bool:
    second: int = images.shape[1]
    last: int = images.shape[3]
    return second <= _MAX_CHANNELS < last


def _labels(name: str, arrays: dict[str, np.ndarray]) -> Tensor:
    y = arrays[name]
    if not np.issubdtype(y.dtype, np.integer) or y.ndim != 1:
        raise DataError(f"{name}: expected integer labels (n,), not {y.dtype} of shape {y.shape}.")
    return torch.from_numpy(y.astype(np.int64, copy=False))


def _classes(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    if (names := arrays.get("classes")) is not None:
        return tuple(str(name) for name in names.ravel())
    labels = [_labels(name, arrays) for name in ("y_train", "y_test") if name in arrays]
    return tuple(str(label) for label in range(1 + max(int(y.max()) for y in labels if len(y))))


def load_inputs(path: Path) -> Tensor:
    """The array `x` of the file at `path`, or else `x_test`, for predictions; as `x_train`, without labels.

    Raises as `load_npz`.
    """
    arrays = _arrays(path, set(), {"x", "x_test"})
    if not arrays:
        raise DataError(f"{path}: expected an array x, or x_test.")
    try:
        return _inputs("x" if "x" in arrays else "x_test", arrays)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


SOURCE = Source(
    lambda location, split: load_npz(location.path, split),
    argument="PATH",
    is_path=True,
    inputs=lambda location: load_inputs(location.path),
)
