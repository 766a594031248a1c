import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_dp.config.data import DataSettings
from fl_dp.data.source import absolute_name, data_of
from fl_dp.errors import ConfigError, DataError


def test_paths_start_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "own.npz", x_train=np.eye(3), y_train=np.arange(3), classes=np.arange(3))
    (tmp_path / "images" / "train" / "cat").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "images" / "train" / "cat" / "1.png")
    monkeypatch.chdir(tmp_path)
    assert len(data_of(DataSettings(data="npz:own.npz"), "train")) == 3
    assert len(data_of(DataSettings(data="folder:images"), "train")) == 1
    monkeypatch.chdir("/")
    with pytest.raises(DataError, match=r"/own\.npz: no such file"):
        data_of(DataSettings(data="npz:own.npz"), "train")
    assert len(data_of(DataSettings(data=f"npz:{tmp_path}/own.npz"), "train")) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("digit", r"expected .*; did you mean digits\?"),
        ("source", "expected "),
        ("npz", "npz takes an argument; write npz:PATH"),
        ("cifar10:", "cifar10 takes no argument; write cifar10"),
    ],
)
def test_an_unknown_name_or_argument_is_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"data = '{name}': {words}"):
        data_of(DataSettings(data=name), "train")


def test_only_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert absolute_name("digits") == "digits"
    assert absolute_name("npz:a:b.npz") == f"npz:{tmp_path}/a:b.npz"
    assert absolute_name("folder:~/images") == "folder:/home/somebody/images"
    assert absolute_name("folder:/images") == "folder:/images"


def test_a_file_that_changed_is_read_anew_though_its_size_and_time_stayed(tmp_path: Path) -> None:
    table, schema = tmp_path / "t.csv", tmp_path / "t.schema.toml"
    table.write_text("age,ill\n20,no\n40,yes\n")
    schema.write_text(
        'split = "none"\n[columns.age]\nkind = "number"\nrange = [0, 40]\n'
        '[columns.ill]\nkind = "label"\nclasses = ["no", "yes"]\n'
    )

    def ages() -> list[float]:
        return [round(age, 2) for age in data_of(DataSettings(data=f"csv:{table}"), "train").x[:, 0].tolist()]

    def edited(file: Path, old: str, new: str) -> None:
        before = file.stat()
        file.write_text(file.read_text().replace(old, new))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert ages() == [0.0, 1.0]
    settings = DataSettings(data=f"csv:{table}")
    assert data_of(settings, "train") is data_of(settings, "train")
    edited(table, "20", "30")
    assert ages() == [0.5, 1.0]
    edited(schema, "40]", "80]")
    assert ages() == [-0.25, 0.0]
