"""Simulated clients evaluate on their own test records: the same split, payments and answers as real ones."""

import dataclasses

import numpy as np
import pytest
import torch

from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DataError
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.evaluation import EvaluationPlan, evaluation_to_content, histogram_from_content
from fl_dp.records import TEST_RECORDS, Refusal
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.tasks.records import divided

CLIENTS = 3
PLAN = EvaluationPlan("run", 1, "linear", "", "record")


def data():
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.normal(size=(CLIENTS * 40, 4)).astype(np.float32))
    return TensorData(x, torch.from_numpy(generator.integers(0, 3, CLIENTS * 40)), ("a", "b", "c"))


@pytest.fixture
def clients(federation):
    """With their parts for training, and those parts."""
    settings = dataclasses.replace(federation.config(), num_partitions=CLIENTS, test=0.3)
    whole, rows = data(), np.split(np.arange(CLIENTS * 40), CLIENTS)
    kept, held_out = divided(RunConfig(test=0.3), settings, whole, rows)
    parts = SharedParts(SharedData.of(whole, kept))
    return SimulatedClients(settings, parts, federation.ledger, held_out=held_out), parts


def ask(clients, federation, client=0):
    content = evaluation_to_content(PLAN, encode(federation.start))
    return histogram_from_content(clients.evaluate(client, content))


def test_no_client_trains_on_its_test_records(clients, federation):
    simulated, parts = clients
    simulated.register(range(CLIENTS))
    accounts = {one.dataset: one for one in federation.ledger.accounts()}
    assert len(accounts) == 2 * CLIENTS
    for client in range(CLIENTS):
        test = simulated._known[client].test
        assert test.dataset.endswith(f"part {client}/3 (iid, seed 0){TEST_RECORDS}")
        assert test.held_out.units + len(parts[client]) == 40
        assert not set(parts[client].record_digests()) & set(test.held_out.records.record_digests())


def test_a_repeated_question_gets_the_same_answer_of_the_same_payment(clients, federation, monkeypatch):
    simulated, _ = clients
    first, again = ask(simulated, federation), ask(simulated, federation)
    assert (first.cells == again.cells).all()
    assert again.spent[0].steps == 1
    with monkeypatch.context() as patch:  # another model, of the same round
        patch.setattr(federation, "start", {name: array + 1 for name, array in federation.start.items()})
        other = ask(simulated, federation)
    assert isinstance(other, Refusal)
    assert "was already taken" in other.reason
    with monkeypatch.context() as patch:  # it may round differently: the noise would cancel
        patch.setattr(torch, "__version__", "another")
        assert "was already taken" in ask(simulated, federation).reason
    simulated.erase_keys("run", 1)
    assert "was already taken" in ask(simulated, federation).reason


def test_a_part_without_test_records_takes_part_and_answers_with_noise(federation):
    settings = dataclasses.replace(federation.config(), num_partitions=CLIENTS, test=1e-9)
    settings = dataclasses.replace(settings, public_size="auto", delta="auto")
    whole, rows = data(), np.split(np.arange(CLIENTS * 40), CLIENTS)
    kept, held_out = divided(RunConfig(test=1e-9), settings, whole, rows)
    parts = SharedParts(SharedData.of(whole, kept))
    simulated = SimulatedClients(settings, parts, federation.ledger, held_out=held_out)
    assert ask(simulated, federation).cells.std() > 1


def test_clients_have_noise_of_their_own(clients, federation):
    simulated, _ = clients
    found = [ask(simulated, federation, client).cells for client in range(CLIENTS)]
    assert not any((found[0] == other).any() for other in found[1:])


def test_a_client_with_nothing_left_to_train_is_refused(federation):
    settings = dataclasses.replace(federation.config(), num_partitions=CLIENTS, test=0.9)
    with pytest.raises(DataError, match=r"test = 0.9: leaves client \d no record to train on"):
        divided(RunConfig(test=0.9), settings, data(), [np.array([row]) for row in range(9)])
