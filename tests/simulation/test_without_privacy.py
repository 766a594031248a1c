"""Simulated clients train without protection as real ones do."""

import numpy as np
import torch
from objectives import objective_for

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.simulation.work import ClientWork, Round
from fl_dp.training.unprotected import UnprotectedTrainer

PLAN = RoundPlan("run", 1, "linear", 5, 10, 0.5, 0.0, 0.0, 1.0, private=False)
CPU = torch.device("cpu")


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
