from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_dp.choices import SOURCES
from fl_dp.data.source import Source, absolute_name, load_data
from fl_dp.errors import ConfigError, DataError


def test_paths_start_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "own.npz", x_train=np.eye(3), y_train=np.arange(3), classes=np.arange(3))
    (tmp_path / "images" / "train" / "cat").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "images" / "train" / "cat" / "1.png")
    monkeypatch.chdir(tmp_path)
    assert len(load_data("npz:own.npz", Path("data"), "train")) == 3
    assert len(load_data("folder:images", Path("data"), "train")) == 1
    monkeypatch.chdir("/")
    with pytest.raises(DataError, match=r"/own\.npz: no such file"):
        load_data("npz:own.npz", Path("data"), "train")
    assert len(load_data(f"npz:{tmp_path}/own.npz", Path("data"), "train")) == 3


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
        load_data(name, Path("data"), "train")


@pytest.mark.parametrize("name", SOURCES.built_in())
def test_every_file_has_its_descriptor(name: str) -> None:
    source = SOURCES.load(name, Source)
    assert source.argument or not source.is_path


def test_only_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert absolute_name("digits") == "digits"
    assert absolute_name("npz:a:b.npz") == f"npz:{tmp_path}/a:b.npz"
    assert absolute_name("folder:~/images") == "folder:/home/somebody/images"
    assert absolute_name("folder:/images") == "folder:/images"
