"""What several data tests need: IDX files in miniature, and a copy of fl_dp to add files to."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fl_dp

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


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of fl_dp."""
    source = Path(fl_dp.__file__).parent
    shutil.copytree(source, tmp_path / "fl_dp", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path
