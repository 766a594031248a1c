"""The baseline is plain SGD, step for step, in batches that go through the data."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness

PLAN = plan_of(
    private=False, noise_multiplier=0.0, steps=7, learning_rate=0.1, momentum=0.9, expected_batch_size=30
)
IGNORED_RATE = 0.123
KEY = bytes(range(32))


def _model():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


def _trainer(data, plan=PLAN, model=None):
    return trainer_for(model or _model(), data, plan, key=KEY)


def _trained(data, plan=PLAN, physical_batch_size=1000):
    model = _model()
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    trainer = _trainer(data, plan, model)
    for _ in range(plan.steps):
        trainer.step(data, IGNORED_RATE, physical_batch_size)
    assert torch.equal(model.unused.detach(), torch.ones(2))  # what the loss leaves out stays
    return model.weight.detach()


def _by_hand(data):
    """Seven steps: passes of 30, 30, 30 and 10 records, each pass shuffled anew."""
    model, draws = _model(), Randomness(KEY).child("draws").generator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    passes = [torch.randperm(100, generator=draws).split(30) for _ in range(2)]
    for batch in [batch for one in passes for batch in one][:7]:
        optimizer.zero_grad()
        F.cross_entropy(model(data.x[batch]), data.y[batch]).backward()
        optimizer.step()
    return model.weight.detach()


@pytest.mark.parametrize("physical_batch_size", [1, 3, 20, 1000])
def test_it_is_the_loop_that_everybody_writes_however_a_batch_is_cut(data, physical_batch_size):
    found = _trained(data, physical_batch_size=physical_batch_size)
    torch.testing.assert_close(found, _by_hand(data), rtol=0, atol=1e-6)


def test_a_client_with_fewer_records_than_a_batch_takes_them_all(data):
    few = TensorData(data.x[:6], data.y[:6], data.classes)
    plan = dataclasses.replace(PLAN, steps=1, momentum=0.0)
    model = _model()
    F.cross_entropy(model(few.x), few.y).backward()
    expected = model.weight.detach() - 0.1 * model.weight.grad
    torch.testing.assert_close(_trained(few, plan), expected, rtol=0, atol=1e-6)


def test_where_memory_runs_out_batches_are_halved_and_the_step_is_the_same(data, monkeypatch):
    trainer = _trainer(data)
    whole, loss = _trained(data, dataclasses.replace(PLAN, steps=1)), trainer._sum_of_losses

    def small_memory(inputs, labels):
        if len(inputs) > 4:
            raise torch.OutOfMemoryError("out of memory")
        return loss(inputs, labels)

    monkeypatch.setattr(trainer, "_sum_of_losses", small_memory)
    trainer.step(data, IGNORED_RATE, 16)
    assert trainer.fits == 4
    torch.testing.assert_close(trainer._model.weight.detach(), whole, rtol=0, atol=1e-6)


def test_what_it_measures_beforehand_changes_no_weight(data):
    model = _model()
    trainer = _trainer(data, model=model)
    assert 1 <= trainer.largest_physical_batch(2**24, trainer.most_at_once) <= PLAN.expected_batch_size
    torch.testing.assert_close(model.weight, _model().weight, rtol=0, atol=0)
    assert all(p.grad is None for p in model.parameters())
    assert trainer.kernels == {}
