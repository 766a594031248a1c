"""`--own-model` audits what clients train: start weights, adapters, frozen layers."""

import pytest
import torch

from fl_dp.audit.own_model import own_model, own_part, spare_records
from fl_dp.audit.settings import Overrides, audit_hostile_model, audit_own_model
from fl_dp.audit.ways import Deployed, Simulated
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

ONCE = Overrides(steps=1)
TASK = """
import torch
from fl_dp import Task

class Ours(Task):
    classes = 2

    def train_data(self):
        return torch.randn(20, 3), torch.arange(20) % 2
"""


def config(**settings):
    return RunConfig(data="digits", clients=4, min_clients=4, fit_clients=4, rounds=1, **settings)


def recording(way, names):
    """`way`, which notes the names of what every update holds."""

    class Recording(way):
        def train(self, plan, weights):
            update = super().train(plan, weights)
            names.append(sorted(update.arrays))
            return update

    return Recording


@pytest.mark.parametrize("way", [Deployed, Simulated])
def test_only_what_is_trained_is_sent_and_scored(way):
    names = []
    asked = config(model="mlp", trainable="5.*")
    assert audit_own_model(asked, ONCE, 30, recording(way, names)).passed
    assert names == [["5.bias", "5.weight"]]


def test_adapters_are_audited():
    pytest.importorskip("peft")
    names = []
    asked = config(model="mlp", lora=2, lora_targets="3", trainable="5.*")
    assert audit_own_model(asked, ONCE, 30, recording(Deployed, names)).passed
    assert names == [["3.lora_A.default.weight", "3.lora_B.default.weight", "5.bias", "5.weight"]]


def test_a_hostile_server_audits_a_frozen_model():
    names = []
    asked = config(model="mlp", trainable="5.*")
    assert audit_hostile_model(asked, ONCE, 20, recording(Deployed, names)).passed
    assert set(map(tuple, names)) == {("5.bias", "5.weight")}


def test_it_begins_at_the_start_weights(tmp_path):
    other = config(seed=5)
    file = tmp_path / "start.pt"
    weights = own_model(other, own_part(other)).state_dict()
    torch.save(weights, file)
    asked = config(start=str(file))
    found = own_model(asked, own_part(asked)).state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())
    drawn = own_model(config(), own_part(config())).state_dict()
    assert any(not torch.equal(drawn[name], weight) for name, weight in weights.items())


def test_class_weights_are_those_of_the_config():
    asked = config(class_weights="1,1,1,1,1,1,1,1,5,5")
    assert audit_own_model(asked, ONCE, 20).passed
    assert audit_hostile_model(asked, ONCE, 20).passed


@pytest.mark.parametrize("part", ["losses", "outputs", "weights"])
def test_a_loss_of_one_s_own_is_refused_by_name(tmp_path, part):
    file = tmp_path / "ours.py"
    file.write_text(TASK + f"\n    def {part}(self, *given):\n        raise NotImplementedError\n")
    asked = config(task=str(file))
    with pytest.raises(ConfigError, match=rf"it has {part}\(\) of its own.*Leave --own-model out"):
        own_model(asked, own_part(asked))


def test_a_task_s_own_model_is_audited(tmp_path):
    file = tmp_path / "ours.py"
    file.write_text(
        TASK + "\n    def test_data(self):\n        return torch.randn(9, 3), torch.arange(9) % 2\n"
        "\n    def model(self):\n        return torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False))\n"
    )
    names = []
    assert audit_own_model(config(task=str(file)), ONCE, 9, recording(Deployed, names)).passed
    assert names == [["0.weight"]]


def test_without_test_data_there_are_no_canaries(tmp_path):
    file = tmp_path / "ours.py"
    file.write_text(TASK + "\n    def test_data(self):\n        return None\n")
    with pytest.raises(ConfigError, match="there are none"):
        spare_records(config(task=str(file)))
