"""A client's round: paid for first, protected always, and nothing leaves but the update."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.probe import probe
from fl_dp.errors import BudgetExhaustedError, ConfigError, ProbeError
from fl_dp.records import Entry, RoundPlan
from fl_dp.training import private
from fl_dp.training.local_round import LocalUpdate, train_locally

PLAN = RoundPlan(
    run="run", server_round=1, model="linear", steps=4, expected_batch_size=20, learning_rate=0.5,
    momentum=0.0, noise_multiplier=1.0, max_grad_norm=1.0,
)  # fmt: skip
BUDGET = Budget(epsilon=8.0, delta=1e-5, accountant="rdp")


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (100,), generator=generator)
    x = torch.randn(100, 5, generator=generator) + 2 * nn.functional.one_hot(y, 5)
    return TensorData(x, y, ("a", "b", "c"))


@pytest.fixture
def ledger(tmp_path, data):
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.register("data", data.fingerprint(), len(data))
        yield ledger


def _train(ledger, data, plan=PLAN, model=None, budget=BUDGET, **changes):
    cpu = torch.device("cpu")
    options = {"public_size": 100, "physical_batch_size": 8, "memory_mib": 64, "device": cpu, **changes}
    return train_locally(model or _linear(), data, plan, ledger, "data", budget, **options)


def _linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


def test_takes_the_planned_steps_and_pays_for_them(ledger, data):
    before = {name: p.detach().numpy().copy() for name, p in _linear().named_parameters()}
    update = _train(ledger, data)
    assert update.steps == 4
    assert update.spent == ledger.spent("data") == (Entry(0.2, 1.0, 4),)
    assert update.epsilon == BUDGET.epsilon_of(update.spent) <= BUDGET.epsilon
    assert update.arrays.keys() == before.keys()
    assert all(not np.array_equal(update.arrays[name], before[name]) for name in before)


def test_what_leaves_is_fixed():
    assert [field.name for field in dataclasses.fields(LocalUpdate)] == [
        "arrays", "spent", "steps", "epsilon", "delta",
    ]  # fmt: skip


def test_a_round_ends_where_the_budget_does_and_the_next_is_declined(ledger, data):
    budget = dataclasses.replace(BUDGET, epsilon=2.9)
    update = _train(ledger, data, budget=budget)
    assert 1 <= update.steps < PLAN.steps
    assert update.epsilon <= budget.epsilon
    one_more = (*update.spent, Entry(0.2, 1.0, 1))
    assert budget.epsilon_of(one_more) > budget.epsilon
    with pytest.raises(BudgetExhaustedError):
        _train(ledger, data, dataclasses.replace(PLAN, server_round=2), budget=budget)
    assert ledger.spent("data") == update.spent


def test_a_model_that_cannot_be_protected_costs_nothing(ledger, data):
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, affine=False))
    with pytest.raises(ProbeError):
        _train(ledger, data, model=model)
    assert ledger.spent("data") == ()


def test_steps_are_paid_for_before_the_first_is_taken(ledger, data, monkeypatch):
    def fail(self, *_):
        raise RuntimeError("power cut")

    monkeypatch.setattr(private.PrivateTrainer, "step", fail)
    with pytest.raises(RuntimeError):
        _train(ledger, data)
    assert ledger.spent("data") == (Entry(0.2, 1.0, 4),)


def test_an_empty_draw_is_still_a_noised_step(ledger, data):
    plan = dataclasses.replace(PLAN, expected_batch_size=1, steps=1)
    update = _train(ledger, data, plan, public_size=10**12)  # draws nobody
    start = _linear().weight.detach().numpy()
    moved = (update.arrays["weight"] - start) / plan.learning_rate
    assert 0.3 < moved.std() < 2.0  # noise of deviation 1 * C / 1
    assert update.steps == 1


@pytest.mark.parametrize("physical_batch_size", [1, 3, 1000])
def test_noise_is_added_once_a_logical_batch_however_it_is_cut(ledger, data, physical_batch_size):
    """With C tiny the update is nothing but noise, whose size must not depend on the cut."""
    plan = dataclasses.replace(
        PLAN, server_round=physical_batch_size, steps=1, learning_rate=1.0, expected_batch_size=50,
        max_grad_norm=1e-6, noise_multiplier=1e4,
    )  # fmt: skip
    model = nn.Linear(5, 200)
    before = model.weight.detach().numpy().copy()
    wide = TensorData(data.x, data.y, tuple(map(str, range(200))))
    update = _train(ledger, wide, plan, model=model, physical_batch_size=physical_batch_size)
    deviation = (update.arrays["weight"] - before).std()
    assert abs(deviation / (1e4 * 1e-6 / 50) - 1) < 5 / math.sqrt(2 * before.size)


class _Scaled(torch.autograd.Function):
    """An operator that cannot get a rule, because it is written in Python."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum_to_size(weight.shape)


class _Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return _Scaled.apply(x, self.weight)


def test_a_record_that_overflows_does_not_decide_what_the_others_contribute(data):
    """Without a rule one example's infinity would make all gradients NaN, and the sum zero."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), _Scale(), nn.Linear(4, 3))
    x, y = data.batch(torch.arange(6))
    x[3] = 3e38
    trainer = private.PrivateTrainer(model, probe(model, x), PLAN, device=torch.device("cpu"))
    others = torch.tensor([0, 1, 2, 4, 5])
    found, clean = trainer._clipped_batch(x, y), trainer._clipped_batch(x[others], y[others])
    moved = torch.cat([(found.grads[n] - clean.grads[n]).flatten() for n in clean.grads]).norm()
    assert moved <= PLAN.max_grad_norm * (1 + 1e-5)
    assert all(grad.abs().sum() > 0 for grad in clean.grads.values())


def test_the_same_draws_and_noise_give_the_same_step_however_it_is_cut(data):
    ends = []
    for physical_batch_size in (3, 1000):
        model = _linear()
        trainer = private.PrivateTrainer(model, probe(model, data.x), PLAN, device=torch.device("cpu"))
        trainer._noise, trainer._draws = (torch.Generator().manual_seed(seed) for seed in (1, 2))
        trainer.step(data, 0.3, physical_batch_size)
        ends.append(model.weight.detach())
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-6)


def test_the_physical_batch_is_chosen_for_a_memory_from_shapes_alone(ledger, data, monkeypatch):
    sizes = []

    def step(self, data, sample_rate, physical_batch_size):
        sizes.append(physical_batch_size)

    monkeypatch.setattr(private.PrivateTrainer, "step", step)
    other = TensorData(data.x[:1] * 1e30, data.y[:1], data.classes)
    plan = dataclasses.replace(PLAN, steps=1, expected_batch_size=50)
    for memory_mib, records in ((1, data), (1, other), (4, data)):
        model = nn.Sequential(nn.Linear(5, 5000), nn.Tanh(), nn.Linear(5000, 3))
        plan = dataclasses.replace(plan, server_round=plan.server_round + 1)
        _train(ledger, records, plan, model=model, physical_batch_size="auto", memory_mib=memory_mib)
    assert 1 <= sizes[0] == sizes[1] < sizes[2] <= 2 * 50


def test_a_memory_that_no_example_fits_costs_nothing(ledger, data):
    model = nn.Linear(5, 200_000)
    wide = TensorData(data.x, data.y, tuple(map(str, range(200_000))))
    with pytest.raises(ConfigError, match="Not even one example fits 1 MiB"):
        _train(ledger, wide, model=model, physical_batch_size="auto", memory_mib=1)
    assert ledger.spent("data") == ()


def test_training_learns(ledger, data):
    plan = dataclasses.replace(PLAN, steps=40, expected_batch_size=50, noise_multiplier=0.5)
    model = _linear()
    _train(ledger, data, plan, model=model, budget=Budget(1000.0, 1e-5, "rdp"))
    accuracy = (model(data.x).argmax(1) == data.y).float().mean()
    assert accuracy > 0.85
