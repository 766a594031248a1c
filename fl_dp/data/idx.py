"""IDX, the file format of MNIST: a header of big-endian sizes, then unsigned bytes."""

import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fl_dp.errors import DataError

_UINT8 = 0x08


def read_idx(path: Path, ndim: int) -> Tensor:
    """The uint8 tensor of `ndim` dimensions in an unpacked IDX file.

    Raises DataError naming the file if it cannot be read, is of another kind, or has another length than its
    header says. Not torchvision's reader: it accepts surplus bytes, its errors do not name the file, and
    importing it takes 1.3 s.
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
