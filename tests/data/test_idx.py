from pathlib import Path

import numpy as np
import pytest

from fl_dp.data.idx import read_idx
from fl_dp.errors import DataError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("images", [IMAGES, IMAGES[:0]])
def test_reads_what_was_written(tmp_path: Path, write_idx, images: np.ndarray) -> None:
    write_idx(tmp_path / "images", images)
    found = read_idx(tmp_path / "images", ndim=3).numpy()
    assert found.shape == images.shape
    assert (found == images).all()


HEAD = b"\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x04"  # of 2 x 3 x 4 bytes
KIND = "expected an IDX file of unsigned bytes in 3 dimensions"


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
