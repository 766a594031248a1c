"""An actor on a GPU."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.shared_data import SharedData
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.work import ActorSettings, ChunkDone, ClientWork, Round

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
KERNELS = {"1.weight": "ghost", "1.bias": "instantiate"}
LITTLE_NOISE = 1e-6  # each kind of device has its own; the records drawn are the same


def actor_on(federation: Any, device: str, **settings: Any) -> TrainingActor:
    made = dataclasses.replace(federation.settings(**settings), device=device)
    return TrainingActor(federation.shared, made)


def trained(actor: TrainingActor, federation: Any, weight: float | None, at_once: int = 64) -> ChunkDone:
    plan = dataclasses.replace(federation.plan(), steps=4, noise_multiplier=LITTLE_NOISE)
    items = [ClientWork(str(k), str(k), k, plan, 4, 0.5, weight, key=bytes([k]) * 32) for k in range(4)]
    return actor.train(1, items, at_once, Round("first", federation.start, KERNELS))


def test_updates_and_their_sum_are_those_of_the_cpu(federation):
    expected = trained(actor_on(federation, "cpu"), federation, None).done
    actor = actor_on(federation, "cuda")
    alone = trained(actor, federation, None).done
    for one, other in zip(alone, expected, strict=True):
        assert not one.problem
        for name, array in other.arrays.items():
            assert np.abs(one.arrays[name] - array).max() <= 1e-4 * np.abs(array).max()
    chunk = trained(actor, federation, 2.0)
    assert not any(one.problem for one in chunk.done)
    for name, total in chunk.sum.items():
        whole = sum(2.0 * one.arrays[name].astype(np.float64) for one in alone)
        assert np.abs(total - whole).max() <= 1e-12 * np.abs(whole).max()


def test_the_same_client_again_gives_the_same_update(federation):
    first, second = (trained(actor_on(federation, "cuda"), federation, None).done for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


def test_measuring_tells_what_is_held_of_a_gpu(federation):
    measured = actor_on(federation, "cuda", physical_batch_size="auto").measure(federation.plan())
    assert measured.at_once >= 1
    assert 0 < measured.gpu_bytes < measured.gpu_total


def test_memory_of_a_gpu_that_runs_out_halves_the_batch():
    """For real: what is left of it holds some, but not all, of the examples of a step."""
    n = 512
    images = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8)
    data = TensorData(images, torch.arange(n) % 10, tuple("abcdefghij"))
    settings = ActorSettings(TaskSettings(), "cuda", 1, n, 100_000)
    plan = RoundPlan("run", 1, "tanh-cnn", 2, n, 0.5, 0.0, LITTLE_NOISE, 1.0)
    actor = TrainingActor(SharedData.of(data, [np.arange(n)]), settings)
    start = state_arrays(build_model("tanh-cnn", Form((3, 32, 32), 10), seed=0))
    shared = Round("first", start, actor.measure(plan).kernels)
    item = ClientWork("0", "0", 0, plan, 2, 1.0, None, key=bytes(32))
    (plenty,) = actor.train(1, [item], n, shared).done
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    actor.train(1, [item], n, shared)
    needed, total = torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.6 * needed / total)
    try:
        result = actor.train(1, [item], n, shared)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert not result.done[0].problem
    assert result.at_once < n
    assert math.log2(n / result.at_once).is_integer()
    for name, array in plenty.arrays.items():
        assert np.abs(result.done[0].arrays[name] - array).max() <= 1e-3 * np.abs(array).max()
