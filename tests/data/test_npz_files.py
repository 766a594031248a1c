"""What an .npz file claims is held against what it can hold, before memory is taken for it."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from fl_dp.data import npz_files
from fl_dp.data.npz_files import read_npz
from fl_dp.errors import DataError

GIB = 2**30


pytestmark = pytest.mark.usefixtures("little_memory")


def header(shape: tuple[int, ...], dtype: type = np.float32) -> bytes:
    stream = io.BytesIO()
    description = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, description)
    return stream.getvalue()


def write(path: Path, content: bytes, kind: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("x.npy", content)
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    return read_npz(path, lambda there: list(there))


def test_a_header_that_claims_28_gib_is_refused_before_they_are_taken(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", header((7 * GIB,)) + bytes(100))
    with pytest.raises(DataError, match=r"x claims shape \(7516192768,\) of float32, which is not what"):
        read(path)


def test_a_directory_that_claims_as_much_is_refused_as_well(tmp_path: Path) -> None:
    """Header and directory agree; so few compressed bytes never become so many."""
    claimed = 0xFFFFFFF0  # the most without zip64
    start = header(((claimed - 128) // 4,))
    assert len(start) == 128
    path = write(tmp_path / "a.npz", start + bytes(100), zipfile.ZIP_DEFLATED)
    sizes = struct.pack("<L", len(start) + 100), struct.pack("<L", claimed)
    path.write_bytes(path.read_bytes().replace(*sizes))
    with pytest.raises(DataError, match="which is not what the file holds"):
        read(path)


def test_a_bomb_is_refused_by_its_true_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds is as it claims, and too much for the machine."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(2**24, np.uint8))
    assert path.stat().st_size < 2**16
    assert read(path)["x"].nbytes == 2**24
    monkeypatch.setattr(npz_files, "machine_memory", lambda: 2**23)
    with pytest.raises(DataError, match=r"a\.npz: its arrays take 0\.0 GiB, more than this machine's"):
        read(path)


def test_headers_of_no_array_are_refused(tmp_path: Path) -> None:
    for shape in ((-1,), (10**30,), (2**63, 0, -5), tuple([2] * 100)):
        with pytest.raises(DataError):
            read(write(tmp_path / "a.npz", header(shape) + bytes(8)))
    text = b"(" * 9000
    content = npy.MAGIC_PREFIX + b"\x01\x00" + struct.pack("<H", len(text)) + text
    with pytest.raises(DataError, match="x is not a plain array, or is damaged"):
        read(write(tmp_path / "a.npz", content))
