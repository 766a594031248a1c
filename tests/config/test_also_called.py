"""Other projects' words: each is no word of ours, and what it becomes can be written."""

from contextlib import suppress
from importlib.metadata import EntryPoint

import pytest

from fl_dp.cli.main import COMMANDS, Commands
from fl_dp.cli.run import run
from fl_dp.config.also_called import (
    _BY_ALIAS,
    _INSTEAD_BY_ALIAS,
    _OPTION_BY_ALIAS,
    _OPTIONS,
    _SETTINGS,
    _VALUE_BY_ALIAS,
    option_called,
    setting_called,
    value_called,
)
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

KEYS = RunConfig().to_flat()


@pytest.mark.parametrize("alias", _BY_ALIAS)
def test_what_a_word_becomes_can_be_written(alias):
    key, value = setting_called(alias.upper().replace("-", "_"))
    assert alias not in KEYS
    assert key in KEYS
    if value != "{}":
        more = {"records-per-person": 4} if key == "unit" else {}
        RunConfig.from_flat({key: value.format("0.5"), **more})


@pytest.mark.parametrize(("key", "alias"), _VALUE_BY_ALIAS)
def test_what_a_value_becomes_can_be_written(key, alias):
    with suppress(ConfigError):
        assert RunConfig.from_flat({key: alias}).to_flat()[key] == alias
        assert key in ("model", "optimizer", "data", "device"), "an alias is no name of ours"
    RunConfig.from_flat({key: value_called(key, alias)})


def test_no_word_means_two_things():
    words = [alias for table in (_SETTINGS, _OPTIONS) for each in table.values() for alias in each.split()]
    assert len(words) == len(set(words)) > 100
    assert not {*_OPTION_BY_ALIAS} & {*KEYS}
    assert not {*_INSTEAD_BY_ALIAS} & {*KEYS, *words}
    assert not {*COMMANDS} & {*Commands()}
    assert setting_called("fraction-fit") == ("", "{}"), "a share is no number of clients"
    assert (setting_called("epsilon"), option_called("epsilon")) == (("", "{}"), "")


def test_options_and_commands_are_there():
    import typer

    options = [one for each in typer.main.get_command(run).params for one in each.opts]
    assert {one for one in _OPTIONS if one.startswith("--")} <= {*options}
    for meant in (*COMMANDS.values(), *_OPTIONS):
        command = meant.split()[1] if meant.startswith("fl-dp ") else "run"
        assert command in Commands() or command.startswith("--")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lr": 1.0}, "did you mean learning-rate?"),
        ({"alpha": 0.5}, 'write partition = "dirichlet:0.5"'),
        ({"pull": 0.1}, 'write local-algorithm = "fedprox:0.1"'),
        ({"fraction-fit": 0.1}, "write fit-clients, how many clients train in a round"),
        ({"accountant": "prv"}, 'write accountant = "pld"'),
        ({"model": "ResNet50"}, 'write model = "torchvision:resnet50"'),
        ({"model": "mobilenet-v2"}, 'write model = "torchvision:mobilenet_v2"'),
        ({"aggregation": "fedavg"}, 'write aggregation = "mean"'),
        ({"epsilon": 10**5000}, "epsilon = a number of more than 30 digits"),
        ({"sweep": 1}, "fl-dp keys lists all keys"),
        ({"output_dir": "a"}, "the option --out of fl-dp run"),
        ({"epsilom": 1}, "did you mean epsilon?"),
        ({"quite-another": 1}, "fl-dp keys lists all keys"),
    ],
)
def test_an_unknown_key_says_what_to_write(given, words):
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")):
        RunConfig.from_flat(given)


def test_a_choice_of_another_package_keeps_its_name(monkeypatch):
    entry = EntryPoint("resnet50", "os.path:join", "fl_dp.architectures")
    monkeypatch.setattr("fl_dp.choices.entry_points", lambda group: [entry] if group == entry.group else [])
    assert RunConfig(model="resnet50").model == "resnet50"
    with pytest.raises(ConfigError, match="torchvision:resnet34"):
        RunConfig.from_flat({"model": "resnet34"})
    assert RunConfig.from_flat({"model": "resnet50"}).model == "resnet50"
