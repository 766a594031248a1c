from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_dp.config.data import DataSettings
from fl_dp.data.files_read import FilesRead, raw_lines, state_of
from fl_dp.data.source import data_of
from fl_dp.errors import DataError

TABLE = [f"P{number},{number % 73},{number * 7 % 11}" for number in range(50)]


def counted(folder: Path, lines: list[str]) -> int:
    """How many digests of lines a file of them has."""
    path = folder / "t.csv"
    path.write_text("\n".join(lines))
    return len(set(FilesRead(state_of([path]), raw_lines).digests())) - 1


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (TABLE, 50),
        (TABLE[:9], 0),  # too few to tell what is chance
        ([f"{number % 20},{number % 3}" for number in range(90)], 0),  # lines come again
        ([f"P{number},{number % 2}" for number in range(50)], 0),  # numbered, and yes or no
        ([f"a sentence without a comma, number {number}" for number in range(50)], 50),
    ],
)
def test_lines_count_if_other_data_rarely_have_them(tmp_path: Path, lines: list[str], number: int) -> None:
    assert counted(tmp_path, lines) == number


def test_ends_of_lines_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes("\r\n".join([*TABLE, "", ""]).encode())
    assert raw_lines(path) == [line.encode() for line in TABLE]


def test_a_file_that_changed_since_it_was_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(TABLE))
    read = FilesRead(state_of([path]), raw_lines)
    path.write_text("\n".join(reversed(TABLE)))
    with pytest.raises(DataError, match=r"t\.csv: changed after its records were read"):
        read.digests()


def test_of_a_folder_only_files_with_records_to_train_on_count(tmp_path: Path) -> None:
    for number, place in enumerate(("train/a", "train/b", "test/a")):
        (tmp_path / place).mkdir(parents=True)
        Image.fromarray(np.full((4, 4), number, np.uint8)).save(tmp_path / place / "1.png")
    (tmp_path / "README.md").write_text("what many folders have")
    (tmp_path / "train" / "a" / "notes.csv").write_text("a,b\n")
    read = data_of(DataSettings(data=f"folder:{tmp_path}"), "train").read
    assert read is not None
    assert [path.relative_to(tmp_path).as_posix() for path, _ in read.state] == [
        "train/a/1.png",
        "train/b/1.png",
    ]
