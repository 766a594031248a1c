"""One actor, without Ray: what it adds up, what a client's failure costs, and memory that runs out."""

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from objectives import objective_for

from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.recording import Recorded
from fl_dp.errors import ConfigError, UnsteadyError
from fl_dp.federation.client.payment import NOT_FINITE
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.models.build import build_model
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor import training_actor
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.work import ClientWork, Round
from fl_dp.training.clipped_passes import ClippedPasses
from fl_dp.training.private import PrivateTrainer
from fl_dp.training.recorder import RECORDING_BYTES
from fl_dp.training.unprotected import UnprotectedTrainer

KERNELS = {"1.weight": "ghost", "1.bias": "instantiate"}


def shared_round(federation: Any) -> Round:
    return Round("first", federation.start, KERNELS)


def item(federation: Any, client: int, weight: float | None = None, **plan: Any) -> ClientWork:
    asked = dataclasses.replace(federation.plan(), **plan)
    key = bytes([client]) * 32
    return ClientWork(str(client), str(client), client, asked, asked.steps, 0.2, weight, key=key)


def train(actor: TrainingActor, federation: Any, items: list[ClientWork], at_once: int = 64) -> list[Any]:
    """What came of the items, trained from the round's weights."""
    return actor.train(1, items, at_once, shared_round(federation)).done


def same(one: Any, other: Any, within: float = 0.0) -> bool:
    """Two updates, up to that part of each array's largest number."""
    pairs = [(one.arrays[name], array) for name, array in other.arrays.items()]
    return all(np.abs(found - array).max() <= within * np.abs(array).max() for found, array in pairs)


def test_a_round_is_told_once_and_tasks_of_another_one_are_not_trained(federation):
    """On other weights they would give an update that nobody has asked for."""
    actor = federation.actor()
    (told,) = train(actor, federation, [item(federation, 0)])
    (known,) = actor.train(1, [item(federation, 0)], 64).done
    assert same(told, known)
    with pytest.raises(RuntimeError, match="round 2 for a process in round 1"):
        actor.train(2, [item(federation, 0)], 64)


def test_what_is_added_up_is_what_is_sent_alone(federation):
    actor = federation.actor()
    alone = train(actor, federation, [item(federation, k) for k in range(5)])
    summed = [item(federation, k, weight=k + 0.5) for k in range(5)]
    for _ in range(2):  # a sum is of its own chunk alone
        chunk = actor.train(1, summed, 64, shared_round(federation))
    assert all(one.arrays is None and not one.problem for one in chunk.done)
    for name, array in chunk.sum.items():
        expected = sum((k + 0.5) * one.arrays[name].astype(np.float64) for k, one in enumerate(alone))
        assert array.dtype == np.float64
        assert np.abs(array - expected).max() <= 1e-12 * np.abs(expected).max()
    assert not actor.train(1, [item(federation, 0)], 64).sum


def test_passes_are_replayed_once_they_have_taken_a_while_and_no_bit_changes(federation, monkeypatch):
    replays: list[int] = []
    replay = Recorded.__call__
    monkeypatch.setattr(Recorded, "__call__", lambda *told: (replays.append(1), replay(*told))[1])
    items = [item(federation, k) for k in range(3)]
    actor = federation.actor()
    first = train(actor, federation, items)
    assert not replays
    assert actor._recorder is not None
    actor._recorder._after = 0.0
    train(actor, federation, items[:1])
    recorded = len(replays)
    again = train(actor, federation, items)
    assert all(map(same, first, again))
    assert len(replays) >= recorded + sum(one.steps for one in items)


def test_what_a_recording_takes_is_planned_for(federation, monkeypatch):
    sizes = []
    for ours in (True, False):
        monkeypatch.setattr(training_actor, "is_our_code", lambda task, model, ours=ours: ours)
        sizes.append(federation.actor().measure(federation.plan()).process_bytes)
    assert sizes[0] - sizes[1] > 0.5 * RECORDING_BYTES


def test_each_client_starts_from_the_rounds_weights(federation):
    """Also after a client that failed, and in a second round of other weights."""
    actor, fresh = federation.actor(), federation.actor()
    train(actor, federation, [item(federation, 1), item(federation, 2)])
    second = Round("second", {n: a + 1 for n, a in federation.start.items()}, KERNELS)
    one, other = (made.train(1, [item(federation, 3)], 64, second).done[0] for made in (actor, fresh))
    assert same(one, other)


def test_a_client_that_raises_fails_alone_and_its_words_stay(federation, monkeypatch):
    _break_client(monkeypatch, "1", ValueError("patient 17"))
    done = train(federation.actor(), federation, [item(federation, k) for k in range(3)])
    assert [bool(one.problem) for one in done] == [False, True, False]
    assert "patient" not in done[1].problem
    assert "patient 17" in done[1].log


def test_a_lost_gpu_ends_the_process(federation, monkeypatch):
    _break_client(monkeypatch, "1", torch.AcceleratorError("device-side assert triggered"))
    with pytest.raises(torch.AcceleratorError):
        train(federation.actor(), federation, [item(federation, k) for k in range(3)])


def _break_client(monkeypatch: Any, client: str, error: Exception) -> None:
    honest = TrainingActor._train

    def train_one(self: TrainingActor, item: ClientWork) -> Any:
        if item.client == client:
            raise error
        return honest(self, item)

    monkeypatch.setattr(TrainingActor, "_train", train_one)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_an_update_that_is_not_finite_is_no_update(federation, monkeypatch, value):
    def step(self: Any, *args: Any) -> None:
        next(iter(self._passes.parameters.values())).data[0, 1] = value

    monkeypatch.setattr(PrivateTrainer, "step", step)
    chunk = federation.actor().train(1, [item(federation, 0, weight=1.0)], 64, shared_round(federation))
    assert [one.problem for one in chunk.done] == [NOT_FINITE]
    assert not chunk.sum


def _memory_for(monkeypatch: Any, most: int, sizes: list[int]) -> None:
    honest = ClippedPasses.sum_of_pass

    def sum_of_pass(self: Any, batch: Any, rows: int, passes: Any = None) -> Any:
        sizes.append(rows)
        if rows > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return honest(self, batch, rows, passes)

    monkeypatch.setattr(ClippedPasses, "sum_of_pass", sum_of_pass)


def test_memory_that_runs_out_halves_the_batch_and_is_remembered(federation, monkeypatch):
    sizes: list[int] = []
    _memory_for(monkeypatch, 5, sizes)
    actor = federation.actor()
    items = [item(federation, k, steps=4, expected_batch_size=16) for k in range(6, 9)]
    all_records = [dataclasses.replace(one, sample_rate=1.0) for one in items]  # draws of 42 records and more
    result = actor.train(1, all_records, 40, shared_round(federation))
    assert not any(one.problem for one in result.done)
    assert result.at_once == 4
    assert [size for size in sizes if size > 5] == [40, 16, 8]
    sizes.clear()
    again = actor.train(1, all_records, 40)  # the driver had not heard of it yet
    assert again.at_once == 4
    assert max(sizes) == 4


def test_a_smaller_batch_gives_the_same_update_and_one_example_that_does_not_fit_none(
    federation, monkeypatch
):
    """Up to rounding. The noise does without the digest of its sum, so that rounding changes none."""
    monkeypatch.setattr(Randomness, "digest", lambda self, chunks: bytes(16))
    (whole,) = train(federation.actor(), federation, [item(federation, 4, steps=5)])
    _memory_for(monkeypatch, 3, [])
    (parts,) = train(federation.actor(), federation, [item(federation, 4, steps=5)])
    assert same(parts, whole, 1e-6)
    _memory_for(monkeypatch, 0, [])
    (done,) = train(federation.actor(), federation, [item(federation, 0)])
    assert done.problem


def test_measuring_finds_kernels_and_memory(federation):
    measured = federation.actor().measure(federation.plan())
    assert set(measured.kernels) == set(KERNELS)
    assert 1 <= measured.at_once <= 64
    assert measured.step_bytes > 0
    assert 50 * 2**20 < measured.process_bytes < 2**40
    assert (measured.gpu_bytes, measured.gpu_total) == (0, 0)


def test_measuring_gives_the_kernels_that_fit_the_memory(federation, monkeypatch):
    def fit(trainer: PrivateTrainer, memory: int, rows: int) -> None:
        assert (memory, rows) == (5 * 2**20, measured_rows)
        trainer._passes.chooser = KernelChooser(fixed=dict.fromkeys(KERNELS, "instantiate"))
        trainer.rehearse(rows)

    measured_rows = federation.actor(memory_mib=5).measure(federation.plan()).most
    monkeypatch.setattr(PrivateTrainer, "fit_kernels", fit)
    measured = federation.actor(memory_mib=5).measure(federation.plan())
    assert set(measured.kernels.values()) == {"instantiate"}


def test_measuring_chooses_a_batch_where_it_is_to(federation):
    actor = federation.actor(physical_batch_size="auto")
    plenty = actor.measure(federation.plan())
    assert 1 <= plenty.at_once <= 2 * federation.plan().expected_batch_size
    large = dataclasses.replace(federation.plan(), expected_batch_size=128)
    assert 1 <= actor.measure(large).at_once <= 2 * 128
    with pytest.raises(ConfigError, match="Not even one example fits in 0 MiB"):
        federation.actor(physical_batch_size="auto", memory_mib=0).measure(federation.plan())


def test_measuring_halves_a_batch_that_does_not_fit(federation, monkeypatch):
    _memory_for(monkeypatch, 3, [])
    assert federation.actor().measure(federation.plan()).at_once == 2


def test_a_measurement_between_two_chunks_does_not_disturb_a_round(federation):
    actor, calm = federation.actor(), federation.actor()
    (before,) = train(actor, federation, [item(federation, 1)])
    actor.measure(federation.plan())
    (after,), (expected,) = (train(one, federation, [item(federation, 1)]) for one in (actor, calm))
    assert same(before, expected)
    assert same(after, expected)


def test_an_actor_imports_no_more_than_it_needs():
    """What every process of a machine would hold once more, and load before the first round.

    Nor do the metrics of a run that names none.
    """
    heavy = {"flwr", "grpc", "rich", "datasets", "pyarrow", "sklearn", "torchvision", "scipy", "triton"}
    code = "import sys, fl_dp.simulation.actor.training_actor, fl_dp.tasks.metrics.shares\n"
    code += f"print(sorted(set(sys.modules) & {heavy | {'dp_accounting'}!r}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_update_that_is_added_in_part_ends_the_process_and_its_sum(federation, monkeypatch):
    """Reported as a client's failure it would leave part of an update behind, in a sum that is then used."""
    actor, calls = federation.actor(), iter(range(100))

    def short_of_memory(*args: Any) -> None:
        if next(calls) == 1:  # the second client
            raise RuntimeError("out of memory")

    monkeypatch.setattr(training_actor, "add", short_of_memory)
    with pytest.raises(RuntimeError, match="out of memory"):
        train(actor, federation, [item(federation, k, weight=1.0) for k in range(3)])


def test_records_that_are_computed_one_by_one_have_passes_of_one_row(federation):
    measured = federation.actor().measure(dataclasses.replace(federation.plan(), arithmetic="proven"))
    assert measured.at_once == 1


def test_rows_whose_bits_depend_on_their_place_are_refused_before_a_round(federation, monkeypatch):
    def by_place(*_: Any) -> None:
        raise UnsteadyError("the gradient of 1.weight depends on its place")

    monkeypatch.setattr("fl_dp.training.rehearsing.check_steady", by_place)
    with pytest.raises(UnsteadyError, match="depends on its place"):
        federation.actor().measure(federation.plan())


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


def test_an_actor_trains_on_other_records_as_a_new_one_would_and_keeps_nothing_of_a_client(federation):
    """So that the next run can have it."""
    shared = federation.shared
    other = dataclasses.replace(shared, x=shared.x[::-1].copy(), y=shared.y[::-1].copy())
    work = item(federation, 0, weight=1.0)
    actor, new = federation.actor(), TrainingActor(other, federation.settings())
    before = actor.train(1, [work], 64, shared_round(federation))
    assert (actor._sum, actor._kept) == ({}, b"")
    actor.use(other)
    sums = [one.train(2, [work], 64, shared_round(federation)).sum for one in (actor, new)]
    assert all(np.array_equal(array, sums[1][name]) for name, array in sums[0].items())
    assert not all(np.array_equal(array, sums[0][name]) for name, array in before.sum.items())
