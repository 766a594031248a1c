"""A client's training in its own process: what it refuses before a payment, what it keeps back."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.audit.one_run import GivenTask
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import DeclinedError, ModelError, UnsteadyError
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.payment import NOT_FINITE
from fl_dp.federation.client.round import ClientRounds, play
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import Refusal, RoundPlan
from fl_dp.training.private import PrivateTrainer

PLAN = RoundPlan("run", 1, "linear", 3, 20, 1e30, 0.0, 0.0, 1.0, private=False)
SETTINGS = ClientConfig(
    client="a", ledger="given", data_name="data", physical_batch_size=8, device="cpu", allow_unprotected=True
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What a client keeps beside its ledger is not kept here."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    return TensorData(1e4 * torch.randn(40, 5, generator=generator), torch.arange(40) % 3, ("a", "b", "c"))


def _content(plan, model):
    return plan_to_content(plan, encode(state_arrays(model)))


def test_an_update_that_is_not_finite_is_a_failure_and_does_not_leave(tmp_path, data):
    """With a learning rate that overflows; its round is paid for."""
    model = build_model("linear", Form((5,), 3), seed=0)
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        rounds = ClientRounds(ledger)
        (client,) = rounds.register([(SETTINGS, data)])
        plan = dataclasses.replace(PLAN, learning_rate=3e38)
        answer = play(rounds, client, _content(plan, model), OwnTraining(SETTINGS, data))
        assert answer == Refusal("failed", NOT_FINITE)
        assert [entry.steps for entry in ledger.spent("data")] == [3]


def test_the_model_is_the_plans_and_starts_from_the_weights_received(data):
    model = build_model("linear", Form((5,), 3), seed=7)
    training = OwnTraining(SETTINGS, data)
    training.prepare(PLAN, _content(PLAN, model))
    for name, array in state_arrays(training.trainer._model).items():
        np.testing.assert_array_equal(array, state_arrays(model)[name])


def test_a_model_that_cannot_be_trained_is_refused_before_the_payment(data):
    model = build_model("linear", Form((5,), 3), seed=0)
    with pytest.raises(DeclinedError, match="the weights received for model linear"):
        OwnTraining(SETTINGS, data).prepare(PLAN, _content(PLAN, nn.Linear(5, 2)))
    mixing = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, affine=False, track_running_stats=False))
    private = dataclasses.replace(PLAN, private=True, noise_multiplier=1.0)
    with pytest.raises(ModelError):
        OwnTraining(SETTINGS, data, GivenTask(mixing, TaskSettings())).prepare(
            private, _content(private, mixing)
        )
    OwnTraining(SETTINGS, data).prepare(private, _content(private, model))


def test_weights_at_which_no_gradient_is_finite_are_declined_before_they_are_paid_for(tmp_path, data):
    """All are below the million that is declined by name; noise alone would be trained and paid for."""
    layers = [part for width in (5, 16, 16, 16) for part in (nn.Linear(width, 16), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(16, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(5e5)
    settings = dataclasses.replace(SETTINGS, epsilon=8.0)
    plan = dataclasses.replace(PLAN, private=True, noise_multiplier=1.0)
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        rounds = ClientRounds(ledger)
        (client,) = rounds.register([(settings, data)])
        training = OwnTraining(settings, data, GivenTask(model, TaskSettings()))
        with pytest.raises(DeclinedError, match="are too large: no example of ordinary numbers"):
            play(rounds, client, _content(plan, model), training)
        assert ledger.spent("data") == ()


def test_kernels_are_fitted_to_the_clients_memory_before_the_payment(data, monkeypatch):
    """Also with a physical batch of its own, which memory-mib does not change."""
    asked = []
    monkeypatch.setattr(PrivateTrainer, "fit_kernels", lambda _, memory, rows: asked.append((memory, rows)))
    private = dataclasses.replace(PLAN, private=True, noise_multiplier=1.0)
    training = OwnTraining(dataclasses.replace(SETTINGS, memory_mib=7), data)
    for _ in range(2):  # the next round takes what this one has chosen
        training.prepare(private, _content(private, build_model("linear", Form((5,), 3), seed=0)))
    assert asked == [(7 * 2**20, training.rows)]
    assert training.trainer.kernels.keys() == {"1.weight", "1.bias"}


@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
def test_rows_whose_bits_depend_on_their_place_are_refused_before_the_payment(data, monkeypatch, arithmetic):
    def by_place(*_):
        raise UnsteadyError("the gradient of 1.weight depends on its place")

    monkeypatch.setattr("fl_dp.training.rehearsing.check_steady", by_place)
    model = build_model("linear", Form((5,), 3), seed=0)
    private = dataclasses.replace(PLAN, private=True, noise_multiplier=1.0, arithmetic=arithmetic)
    prepared = partial(
        OwnTraining(SETTINGS, data).prepare,
        private,
        _content(private, model),
    )
    if arithmetic == "proven":
        prepared()
    else:
        with pytest.raises(UnsteadyError, match="depends on its place"):
            prepared()
