"""Simulated clients train without protection as real ones do: only where allowed, and noted before."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from flwr.supercore.task_identity import TaskIdentity
from objectives import objective_for

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import Entry, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import ActorSettings, ClientWork, Done, Round
from fl_dp.training.unprotected import UnprotectedTrainer

PLAN = RoundPlan("run", 1, "linear", 5, 10, 0.5, 0.0, 0.0, 1.0, private=False)
CPU = torch.device("cpu")


@pytest.fixture
def shared():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 4, generator=generator), torch.arange(60) % 3
    return SharedData.of(TensorData(x, y, ("a", "b", "c")), [np.arange(30), np.arange(30, 60)])


@pytest.fixture
def clients(shared, tmp_path, monkeypatch):
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    config = ClientConfig(
        client="0", ledger=str(tmp_path / "ledger.sqlite"), num_partitions=2, accountant="rdp",
        allow_unprotected=True,
    )  # fmt: skip
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield lambda **changes: SimulatedClients(
            dataclasses.replace(config, **changes), SharedParts(shared), ledger
        )


def asked(plan):
    return {0: ("m", plan_to_content(plan, encode({})))}


def test_the_ledger_notes_it_and_refuses_privacy_afterwards(clients):
    bare = clients()
    items, refusals = bare.read(asked(PLAN))
    paid, more = bare.pay(items, "w")
    assert (len(paid), refusals, more) == (1, {}, {})
    update = {"w": np.zeros(2, np.float32)}
    content = bare.answer(paid, {"m": Done("m", 0.1, arrays=update)})["m"]
    reply, problem = reply_from_content(content, specs(update))
    assert (reply.epsilon, reply.spent, problem) == (math.inf, (Entry(1 / 3, 0.0, 5),), "")
    private = dataclasses.replace(PLAN, private=True, noise_multiplier=1.0, server_round=2)
    items, _ = bare.read(asked(private))
    paid, refusals = bare.pay(items, "w")
    assert paid == []
    assert "without protection in run run" in str(refusals["m"]["refusal"]["reason"])


def test_clients_that_do_not_allow_it_decline(clients):
    careful = clients(allow_unprotected=False)
    assert not profile_from_content(careful.register([0])[0]).allow_unprotected
    items, refusals = careful.read(asked(PLAN))
    assert items == []
    assert refusals["m"]["refusal"]["status"] == "declined"


def test_an_actor_trains_with_plain_sgd(shared):
    key, model = b"s" * 32, build_model("linear", Form((4,), 3), seed=1)
    settings = ActorSettings(
        task=TaskSettings(), device="cpu", threads=1, physical_batch_size=4, memory_mib=64
    )
    item = ClientWork("m", "1", 1, PLAN, 5, 1 / 3, None, key=key)
    actor = TrainingActor(shared, settings)
    assert actor.measure(PLAN).kernels == {}
    start = Round("key", {name: array.copy() for name, array in state_arrays(model).items()}, {})
    (done,) = actor.train(1, [item], 4, start).done
    randomness = Randomness(key)
    objective = objective_for(SharedParts(shared)[1].form)
    trainer = UnprotectedTrainer(model, PLAN, objective, device=CPU, randomness=randomness)
    for _ in range(5):
        trainer.step(SharedParts(shared)[1], 1 / 3, 1000)
    assert done.problem == ""
    for name, array in state_arrays(model).items():
        np.testing.assert_allclose(done.arrays[name], array, rtol=0, atol=1e-6)
