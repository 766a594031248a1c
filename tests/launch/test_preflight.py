import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, DataError, TaskError
from fl_dp.launch.first_checks import check_first
from fl_dp.launch.preflight import (
    check_choices,
    check_ledgers,
    check_server,
    preflight,
    split,
    with_absolute_paths,
)


def test_what_is_right_passes():
    check_server(RunConfig())
    check_choices(RunConfig(data="npz:nowhere.npz", model="torchvision:resnet18"))
    check_choices(RunConfig(partition="sizes:1,2"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RunConfig(data="digit"), "data = 'digit': expected .*digits or .*npz"),
        (RunConfig(model="liner"), "model = 'liner': expected .*did you mean linear"),
    ],
)
def test_a_name_that_is_not_there_is_known_at_once(config, expected):
    with pytest.raises(ConfigError, match=expected):
        check_first(config, clients=False)
    with pytest.raises(ConfigError, match=expected):
        check_choices(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RunConfig(data="npz"), "data = 'npz': npz takes an argument; write npz:PATH"),
        (RunConfig(model="torchvision"), "model = 'torchvision': .*write torchvision:NAME"),
        (RunConfig(partition="iid:2"), "partition = 'iid:2': iid takes no argument"),
        (RunConfig(partition="sizes:x"), "partition = 'sizes:x': expected sizes as in sizes:100,50"),
        (RunConfig(partition="sizes:1,2,3"), "one size for each client, clients = 2"),
    ],
)
def test_a_wrong_argument_or_setting_is_known_before_data_are_read(config, expected):
    check_first(config, clients=False)
    with pytest.raises(ConfigError, match=expected):
        check_choices(config)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": "lenet-gn"}, r"model = 'lenet-gn'.*\(1, 8, 8\)"),
        ({"data": "npz:absent.npz"}, r"absent\.npz"),
        ({"loss": "mse"}, "loss = 'mse': is for targets of kind numbers, and the data's are of kind class"),
        ({"class_weights": "1,5"}, "class-weights = '1,5': expected 10 numbers"),
        ({"optimizer": "muon"}, "optimizer = 'muon': torch.optim refuses it"),
        ({"device": "tpu"}, "device = 'tpu': not found on this machine"),
    ],
)
def test_what_does_not_suit_the_data_or_the_model_is_refused_before_a_start(settings, words):
    with pytest.raises((ConfigError, DataError), match=words):
        check_server(RunConfig(**settings))


def test_a_model_that_cannot_be_protected_is_refused_before_anything_starts(monkeypatch):
    with_batch_norm = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10))
    monkeypatch.setattr("fl_dp.tasks.task.build_model", lambda *_: with_batch_norm)
    words = r"model = 'linear' cannot be trained privately on numbers of .* buffer 2\.running_mean"
    with pytest.raises(ConfigError, match=words):
        check_server(RunConfig())


@pytest.mark.parametrize(
    ("aggregation", "rounds", "said"), [("secure", 3, True), ("secure", 30, False), ("mean", 3, False)]
)
def test_few_rounds_of_secure_sums_are_said(aggregation, rounds, said):
    config = RunConfig(clients=3, min_clients=3, fit_clients=3, aggregation=aggregation, rounds=rounds)
    note = 'with aggregation = "secure" a round is one step, so rounds = 3 trains only that many'
    assert [one.startswith(note) for one in preflight(config, clients=False).notes] == [True] * said
    assert sum(one.startswith(note) for one in split(config)[1]) == said


@pytest.mark.parametrize(("test", "said"), [(0.0, True), (0.2, False)])
def test_a_run_that_measures_nothing_says_how_it_would(test, said):
    notes = split(RunConfig(personal="*.bias", test=test))[1]
    assert any("the server measures nothing; in a simulation test = 0.2" in note for note in notes) == said


@pytest.mark.parametrize(("privacy", "said"), [("on", False), ("off", True)])
def test_settings_chosen_for_clipped_gradients_are_said_where_nothing_clips(privacy, said):
    notes = split(RunConfig(privacy=privacy))[1]
    assert any("clips nothing: gradients longer than max-grad-norm = 1" in note for note in notes) == said


def test_small_parts_are_said():
    (note,) = split(RunConfig(clients=50, expected_batch_size=64))[1]
    assert note.startswith(
        "the smallest client declares 28 records; a client with fewer than expected-batch-size = 64"
    )
    assert split(RunConfig(clients=2))[1] == ()


TASK = """
import torch
from torch import nn
from fl_dp import Task

class Ours(Task):
    classes = 2
    def model(self):
        return nn.Linear(11, 2)
    def losses(self, model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="HOW")
    def train_data(self):
        return torch.zeros(40, WIDE), [0, 1] * 20
    test_data = train_data
"""


@pytest.mark.parametrize(
    ("how", "wide", "words"),
    [
        ("none", 13, r"model\(\) of .*ours.py cannot be trained .* inputs of shape \(4, 13\)"),
        ("mean", 11, r"shape \(\) for 4 examples, expected \(4,\): each example's own loss"),
    ],
)
def test_what_a_task_of_ones_own_does_wrong_is_said_of_the_task(how, wide, words, tmp_path):
    (tmp_path / "ours.py").write_text(TASK.replace("HOW", how).replace("WIDE", str(wide)))
    with pytest.raises(ConfigError, match=words):
        check_server(RunConfig(task=str(tmp_path / "ours.py")))


def test_a_metric_of_ones_own_that_raises_is_known_before_anything_starts(tmp_path):
    own = "    metrics = (lambda outputs: outputs,)\n"
    (tmp_path / "ours.py").write_text(TASK.replace("HOW", "none").replace("WIDE", "11") + own)
    config = RunConfig(task=str(tmp_path / "ours.py"))
    with pytest.raises(ConfigError, match=r"cannot be measured .* TypeError"):
        check_server(config)
    check_server(dataclasses.replace(config, metrics="accuracy"))


def test_a_server_without_data_makes_a_task_of_ones_own_and_leaves_the_rest_to_clients(tmp_path):
    file, text = tmp_path / "ours.py", TASK.replace("HOW", "none").replace("WIDE", "11")
    text = text.replace("test_data = train_data", "")
    file.write_text(text)
    check_server(RunConfig(task=str(file), evaluate="off"))
    file.write_text(text.replace("nn.Linear(11, 2)", "None"))
    with pytest.raises(TaskError, match=r"model\(\) raised TypeError"):
        check_server(RunConfig(task=f"{file}:Ours", evaluate="off"))


PEOPLE = """
[columns.who]
kind = "group"
[columns.age]
kind = "number"
range = [0, 100]
[columns.ill]
kind = "label"
classes = [0, 1]
"""


def test_the_unit_is_said_where_records_are_grouped(tmp_path):
    rows = "".join(f"p{k // 4},{k % 90},{k % 2}\n" for k in range(400))
    (tmp_path / "people.csv").write_text(f"who,age,ill\n{rows}")
    (tmp_path / "people.schema.toml").write_text(PEOPLE)
    config = RunConfig(data=f"csv:{tmp_path}/people.csv", expected_batch_size=8, physical_batch_size=8)
    assert "epsilon protects one record, but the records are grouped by 'who'" in split(config)[1][0]
    assert "unit = person:who" in split(config)[1][0]
    assert split(replace(config, partition="by:who"))[1] == ()
    persons = replace(config, unit="person:who", records_per_person=4)
    assert split(persons)[1] == ()
    many = split(replace(persons, expected_batch_size=64, physical_batch_size=64))[1][0]
    assert "persons; a client with fewer than expected-batch-size = 64 uses all its persons" in many


def test_paths_mean_the_same_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(RunConfig(data="npz:x.npz", data_root="~/sets"))
    assert config.data == f"npz:{tmp_path / 'x.npz'}"
    assert config.data_root == str(Path("~/sets").expanduser())
    assert with_absolute_paths(RunConfig()).data == "digits"


AT_TWO_SITES = """
import torch
from fl_dp import Task
from fl_dp.data.tensor_data import TensorData

class Ours(Task):
    classes = 2

    def train_data(self):
        x, y = torch.arange(12.0).view(-1, 1), torch.arange(12) % 2
        return TensorData(x, y, ("a", "b"), groups=tuple("aabbccddeefa"), sites=tuple("01" * 6))
"""


def test_who_is_at_several_clients_is_refused(tmp_path):
    (tmp_path / "ours.py").write_text(AT_TWO_SITES)
    config = RunConfig(
        task=str(tmp_path / "ours.py"),
        partition="by:site",
        unit="person:who",
        records_per_person=1,
        expected_batch_size=4,
        physical_batch_size=4,
        evaluate="off",
    )
    with pytest.raises(DataError, match=r"at up to 2 clients, whose epsilons would add up"):
        split(config)
    split(replace(config, unit="record", records_per_person=0))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 1e-300}, "epsilon = 1e-300: no amount of noise meets this budget"),
        ({"epsilon": 0.001, "noise_multiplier": 0.5}, "no room for a step with noise-multiplier = 0.5"),
    ],
)
def test_a_budget_that_nothing_meets_is_no_budget_that_is_spent(settings, words):
    with pytest.raises(ConfigError, match=words):
        preflight(RunConfig(**settings), clients=True)
    preflight(RunConfig(**{**settings, "epsilon": 0.9, "noise_multiplier": 8.0}), clients=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a file", "a file: expected a folder"),
        ("a file/below", "a file/below: cannot be written: "),
        ("damaged", "damaged: .*damaged/ledger.sqlite.*file is not a database"),
    ],
)
def test_ledgers_that_cannot_be_kept_are_refused_before_a_start(tmp_path, name, words):
    (tmp_path / "a file").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "ledger.sqlite").write_text("not a database, for many bytes")
    with pytest.raises(ConfigError, match=f"--ledger .*{words}"):
        check_ledgers(tmp_path / name)
    for sound in (None, tmp_path / "deep" / "new", tmp_path / "deep" / "new"):
        check_ledgers(sound)
        Ledger.open(tmp_path / "deep" / "new" / "ledger.sqlite").close()
