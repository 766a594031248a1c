"""Simulated clients train without protection as real ones do: only where allowed, and noted before."""

import dataclasses
import math

import numpy as np
import torch
from objectives import objective_for

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, reply_from_content
from fl_dp.models.build import build_model
from fl_dp.records import Entry, RoundPlan
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import ClientWork, Done, Round
from fl_dp.training.unprotected import UnprotectedTrainer

PLAN = RoundPlan("run", 1, "linear", 5, 10, 0.5, 0.0, 0.0, 1.0, private=False)
CPU = torch.device("cpu")


def test_the_ledger_notes_it_and_refuses_privacy_afterwards(federation):
    config = dataclasses.replace(federation.config(), allow_unprotected=True)
    clients = SimulatedClients(config, SharedParts(federation.shared), federation.ledger)
    items, refusals = clients.read({0: ("m", plan_to_content(PLAN, encode({})))})
    paid, more = clients.pay(items, "w")
    assert (len(paid), refusals, more) == (1, {}, {})
    update = {"w": np.zeros(2, np.float32)}
    content = clients.answer(paid, {"m": Done("m", 0.1, arrays=update)})["m"]
    reply, problem = reply_from_content(content, specs(update))
    assert (reply.epsilon, reply.spent, problem) == (math.inf, (Entry(1 / 3, 0.0, 5),), "")
    private = dataclasses.replace(PLAN, private=True, noise_multiplier=1.0, server_round=2)
    items, _ = clients.read({0: ("m", plan_to_content(private, encode({})))})
    paid, refusals = clients.pay(items, "w")
    assert paid == []
    assert "without protection in run run" in str(refusals["m"]["refusal"]["reason"])


def test_an_actor_trains_with_plain_sgd(federation):
    key, data = b"s" * 32, federation.shared_part(0)
    model = build_model("linear", data.form, seed=1)
    item = ClientWork("m", "0", 0, PLAN, 5, 1 / 3, None, key=key)
    actor = federation.actor(physical_batch_size=4, memory_mib=64)
    assert actor.measure(PLAN).kernels == {}
    (done,) = actor.train(1, [item], 4, Round("key", federation.start, {})).done
    objective = objective_for(data.form)
    trainer = UnprotectedTrainer(model, PLAN, objective, device=CPU, randomness=Randomness(key))
    for _ in range(5):
        trainer.step(data, 1 / 3, 1000)
    assert done.problem == ""
    for name, array in state_arrays(model).items():
        np.testing.assert_allclose(done.arrays[name], array, rtol=0, atol=1e-6)
