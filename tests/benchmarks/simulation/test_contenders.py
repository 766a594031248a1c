import tomllib
from pathlib import Path

import pytest

from benchmarks.simulation import contenders
from benchmarks.simulation.contenders import (
    DOING_NOTHING,
    FLOWER,
    ONE_ON_GPU,
    OURS_NOT_PRIVATE,
    OURS_ON_GPUS,
    PFL,
    TRAINING,
    Load,
    Place,
)
from benchmarks.simulation.watch import NotMeasured


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, 3, Path("data"), None)


def test_flower_is_spared_what_would_fill_the_memory_and_pfl_where_it_is_not_installed(monkeypatch, place):
    monkeypatch.setattr(contenders, "available_bytes", lambda: 10 * 2**30)
    start = DOING_NOTHING[FLOWER]
    assert start(Load(100, 10_000_000), place).rounds == 3
    with pytest.raises(NotMeasured, match="20 GiB") as ended:
        start(Load(1000, 10_000_000), place)
    assert ended.value.word == "skipped"
    with pytest.raises(NotMeasured, match="--pfl-python") as ended:
        TRAINING[PFL]("digits", place)
    assert ended.value.word == "not installed"


def test_ours_is_what_its_users_would_type(place):
    command = TRAINING[OURS_NOT_PRIVATE]("fashion-mnist", place)
    assert "--simulate" in command.arguments
    config = tomllib.loads((place.folder / "config.toml").read_text())
    assert (config["clients"], config["fit-clients"], config["expected-batch-size"]) == (1000, 100, 20)
    assert config["privacy"] == "off"
    assert config["device"] == "cpu"  # as the others', also where there is a GPU


@pytest.mark.parametrize(("contender", "per_gpu"), [(OURS_ON_GPUS, None), (ONE_ON_GPU, 1)])
def test_gpus_are_used_where_there_are_any(monkeypatch, place, contender, per_gpu):
    monkeypatch.setattr(contenders.torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotMeasured, match="no GPU"):
        TRAINING[contender]("200-clients", place)
    monkeypatch.setattr(contenders.torch.cuda, "is_available", lambda: True)
    TRAINING[contender]("200-clients", place)
    config = tomllib.loads((place.folder / "config.toml").read_text())
    assert (config["device"], config["clients"], config["fit-clients"]) == ("cuda", 200, 200)
    assert config.get("clients-per-gpu") == per_gpu
