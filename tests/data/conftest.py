"""What several data tests need: IDX files in miniature."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

WriteIdx = Callable[[Path, np.ndarray], bytes]


@pytest.fixture
def write_idx() -> WriteIdx:
    """Write a uint8 array as an IDX file, and return the file's bytes."""

    def write(path: Path, array: np.ndarray) -> bytes:
        content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
        content += array.astype(np.uint8).tobytes()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return content

    return write
