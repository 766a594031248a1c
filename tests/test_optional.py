"""What only an extra brings is asked for by name, and every extra is in pyproject.toml."""

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fl_dp.data.sources.torchvision import fetch
from fl_dp.data.tokens import encoder_of
from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.optional import EXTRAS, require_package

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_an_extra_brings_what_it_is_said_to_bring(package: str, extra: str) -> None:
    brought = {Requirement(line).name for line in PROJECT["optional-dependencies"][extra]}
    assert package in brought


def test_no_extra_is_a_plain_dependency() -> None:
    plain = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert plain & EXTRAS.keys() == set()


def test_models_is_text_and_vision() -> None:
    extras = PROJECT["optional-dependencies"]
    assert sorted(extras["models"]) == sorted(extras["text"] + extras["vision"])


def test_a_package_that_is_not_there_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    message = (
        "a model needs the package timm, which is not installed: pip install timm, or the extra vision of"
    )
    with pytest.raises(ConfigError, match=message):
        require_package("timm", "a model")
    with pytest.raises(ConfigError, match=r"pip install nowhere\.$"):
        require_package("nowhere", "a model")


@pytest.mark.parametrize("name", ["resnet18-gn", "torchvision:resnet18"])
def test_models_of_torchvision_say_that_they_need_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ConfigError, match="needs the package torchvision"):
        build_model(name, Form((3, 32, 32), 2), seed=0)


def test_a_download_says_that_it_needs_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ConfigError, match="MNIST, where it is unpacked or downloaded, needs the package"):
        fetch("MNIST", tmp_path)


def test_a_tokenizers_file_says_that_it_needs_tokenizers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"tokenizer .*tokenizer.json needs the package tokenizers"):
        encoder_of(str(tmp_path / "tokenizer.json"))
