from pathlib import Path

import numpy as np
import pytest

from fl_dp.data.idx import read_idx
from fl_dp.errors import DataError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def test_reads_what_was_written(tmp_path: Path, write_idx) -> None:
    write_idx(tmp_path / "images", IMAGES)
    assert (read_idx(tmp_path / "images", ndim=3).numpy() == IMAGES).all()


def test_a_file_without_records_is_read(tmp_path: Path, write_idx) -> None:
    write_idx(tmp_path / "images", IMAGES[:0])
    assert read_idx(tmp_path / "images", ndim=3).shape == (0, 3, 4)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_truncated_or_overlong_file_is_named_with_both_lengths(
    tmp_path: Path, write_idx, change: int
) -> None:
    path = tmp_path / "images"
    content = write_idx(path, IMAGES)
    path.write_bytes(content[:-1] if change < 0 else content + b"\0")
    with pytest.raises(
        DataError, match=rf"images: expected 40 bytes for shape \(2, 3, 4\), found {40 + change}"
    ):
        read_idx(path, ndim=3)


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\x08", b"\0\0\x0d\x03" + bytes(40), b"\x1f\x8b\x08\x00" + bytes(40)]
)
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(DataError, match="images: expected an IDX file of unsigned bytes in 3 dimensions"):
        read_idx(tmp_path / "images", ndim=3)


def test_labels_in_the_place_of_images_are_refused(tmp_path: Path, write_idx) -> None:
    write_idx(tmp_path / "labels", IMAGES[0, 0])
    with pytest.raises(DataError, match="in 3 dimensions"):
        read_idx(tmp_path / "labels", ndim=3)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="images: cannot be read: No such file"):
        read_idx(tmp_path / "images", ndim=3)
