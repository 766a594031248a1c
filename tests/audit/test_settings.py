"""`--own-model` audits what clients train: start weights, adapters, frozen layers."""

import pytest
import torch

from fl_dp.audit.mislabelled import MislabelledRecords
from fl_dp.audit.settings import (
    Overrides,
    audit_gradients,
    audit_hostile_model,
    audit_own_model,
    own_model,
    own_part,
    spare_records,
)
from fl_dp.audit.ways import Deployed, Simulated
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
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
    assert audit_hostile_model(asked, ONCE, 20, recording(way, names)).passed
    assert set(map(tuple, names)) == {("5.bias", "5.weight")}


def test_a_client_is_audited_at_the_rate_of_its_declared_number(tmp_path):
    (tmp_path / "ours.py").write_text(TASK)
    own = RunConfig(
        task=str(tmp_path / "ours.py"), clients=1, min_clients=1, fit_clients=1, rounds=1, evaluate="off",
        noise_multiplier=2.0, expected_batch_size=6, physical_batch_size=6,
    )  # fmt: skip
    assert audit_gradients(own, ONCE, 5).sample_rate == 6 / 24  # of 20 records


def test_adapters_are_audited():
    pytest.importorskip("peft")
    names = []
    asked = config(model="mlp", lora=2, lora_targets="3", trainable="5.*")
    assert audit_own_model(asked, ONCE, 30, recording(Deployed, names)).passed
    assert names == [["3.lora_A.default.weight", "3.lora_B.default.weight", "5.bias", "5.weight"]]


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


PERSONS = """
import torch
from fl_dp import Task
from fl_dp.data.tensor_data import TensorData

def records(seed, persons):
    generator = torch.Generator().manual_seed(seed)
    groups = tuple(f"p{k}" for k in range(persons) for _ in range(1 + k % 4))
    return TensorData(torch.randn(len(groups), 5, generator=generator), torch.arange(len(groups)) % 3,
                      ("a", "b", "c"), groups=groups)

class Ours(Task):
    classes = 3

    def train_data(self):
        return records(0, 50)

    def test_data(self):
        return records(1, 30)
"""


@pytest.mark.parametrize("way", [Deployed, Simulated])
def test_persons_are_audited_with_a_model_and_data_of_ones_own(way, tmp_path):
    """Canaries are persons among the site's own, each as often drawn as anybody else."""
    (tmp_path / "ours.py").write_text(PERSONS)
    asked = RunConfig(
        task=str(tmp_path / "ours.py"), unit="person:who", records_per_person=2, clients=1, min_clients=1,
        fit_clients=1, rounds=1, expected_batch_size=10, physical_batch_size=10,
    )  # fmt: skip
    seen = []

    class Looking(way):
        def __init__(self, settings, data, task, ledger):
            super().__init__(settings, data, task, ledger)
            seen.append((len(data), data.most, settings.unit_of_all))

    for audit in (audit_own_model, audit_hostile_model):
        report = audit(asked, ONCE, 20, Looking)
        assert report.passed
    (own, most, unit), (hostile, _, same) = seen
    assert 50 <= own <= 70
    assert hostile >= 50
    assert most == 2
    assert unit == same == "person, first 2 records"


def test_no_canary_included_leaves_the_sites_own_persons():
    records = TensorData(torch.randn(6, 3), torch.arange(6) % 2, ("a", "b"), groups=tuple("aabbcc"))
    persons = PersonData(records, 2)
    canaries = MislabelledRecords(torch.nn.Linear(3, 2), persons, records)
    assert canaries.public_size == 3 + 6
    assert len(canaries.data(torch.zeros(6, dtype=torch.bool))) == 3
    assert len(canaries.data(torch.tensor([True] * 2 + [False] * 4))) == 5


@pytest.mark.parametrize("audit", [audit_gradients, audit_own_model])
def test_it_is_audited_as_it_clips(audit):
    report = audit(config(clipping="automatic", noise_multiplier=2.0, expected_batch_size=64), ONCE, 20)
    assert report.passed
