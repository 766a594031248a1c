"""DP-SGD on one model, step by step."""

import dataclasses

import pytest
import torch
from objectives import objective_for
from torch import nn

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.probe import probe
from fl_dp.errors import ConfigError, NonFiniteError
from fl_dp.records import RoundPlan
from fl_dp.training import mixing_watch, private

PLAN = RoundPlan(
    run="run", server_round=1, model="linear", steps=4, expected_batch_size=20, learning_rate=0.5,
    momentum=0.0, noise_multiplier=1.0, max_grad_norm=1.0,
)  # fmt: skip


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (100,), generator=generator)
    x = torch.randn(100, 5, generator=generator) + 2 * nn.functional.one_hot(y, 5)
    return TensorData(x, y, ("a", "b", "c"))


def _linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


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
    with torch.no_grad():
        model[0].weight.fill_(2.0)  # 3e38 overflows here
    trainer = private.PrivateTrainer(
        model, probe(model, x), PLAN, objective_for(data.form), device=torch.device("cpu")
    )
    with pytest.raises(NonFiniteError):
        trainer.clipped_sums([(x, y)], 8)  # all at once, it cannot be told whose the infinity is
    others = torch.tensor([0, 1, 2, 4, 5])
    (found,), (clean,) = (trainer.clipped_or_none([pair], 8) for pair in ((x, y), (x[others], y[others])))
    moved = torch.cat([(found.grads[n] - clean.grads[n]).flatten() for n in clean.grads]).norm()
    assert moved <= PLAN.max_grad_norm * (1 + 1e-5)
    assert all(grad.abs().sum() > 0 for grad in clean.grads.values())


def test_the_same_draws_give_the_same_step_however_it_is_cut(data, monkeypatch):
    monkeypatch.setattr(private, "add_gaussian_noise", lambda clipped, **_: clipped.grads)
    ends = []
    for physical_batch_size in (3, 1000):
        model = _linear()
        trainer = private.PrivateTrainer(
            model,
            probe(model, data.x),
            PLAN,
            objective_for(data.form),
            device=torch.device("cpu"),
            randomness=Randomness(bytes(32)),
        )
        trainer.step(data, 0.3, physical_batch_size)
        ends.append(model.weight.detach())
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-6)


class _Raises(nn.Module):
    """A model of the user's that cannot take some records, and says so."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x):
        if bool((x > 100).any()):
            raise ValueError("a value above 100")
        return self.linear(x)


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_a_record_that_makes_the_model_raise_contributes_nothing_and_the_others_all(data, rows, caplog):
    torch.manual_seed(0)
    model = _Raises()
    x = data.x.clone()
    x[3] = 1000.0
    spoiled = TensorData(x, data.y, data.classes)
    trainer = private.PrivateTrainer(
        model, probe(model, data.x), PLAN, objective_for(data.form), device=torch.device("cpu")
    )
    found = trainer._clipped_sum(spoiled, torch.arange(7), rows)
    expected = trainer._clipped_sum(data, torch.tensor([0, 1, 2, 4, 5, 6]), rows)
    for name, grad in expected.grads.items():
        torch.testing.assert_close(found.grads[name].to(grad.dtype), grad, rtol=0, atol=1e-6)
    assert "an example contributes nothing: a value above 100" in caplog.text


def test_memory_that_runs_out_is_no_records_fault(data, monkeypatch):
    trainer = private.PrivateTrainer(
        _linear(), probe(_linear(), data.x), PLAN, objective_for(data.form), device=torch.device("cpu")
    )

    def full(batches, rows):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(trainer, "clipped_sums", full)
    with pytest.raises(torch.OutOfMemoryError):
        trainer._clipped_sum(data, torch.arange(5), 8)
    assert trainer.fits == 1


@pytest.fixture
def no_watch(monkeypatch):
    """Batches are not searched for mixing, which calls the model once more."""
    monkeypatch.setattr(mixing_watch.secrets, "randbelow", lambda n: 1)


def test_every_pass_has_the_same_shape_whatever_is_drawn(data, no_watch):
    shapes = set()
    model = _linear()
    model.register_forward_pre_hook(lambda module, args: shapes.add(tuple(args[0].shape)))
    trainer = private.PrivateTrainer(
        model, probe(_linear(), data.x), PLAN, objective_for(data.form), device=torch.device("cpu")
    )
    for _ in range(20):
        trainer.step(data, 0.2, 8)
    assert shapes == {(8, 5)}


def test_the_models_own_random_numbers_follow_from_the_key_and_are_new_for_every_step_and_slot(
    data, no_watch
):
    """Masks of a known seed, or shared by slots or steps, are known to a server, or cancel out."""

    def masks(key):
        model = nn.Sequential(nn.Linear(5, 64), nn.Dropout(), nn.Linear(64, 3))
        axes = probe(model, data.x)
        found = []
        model[1].register_forward_hook(lambda module, args, output: found.append(output.detach() != 0))
        trainer = private.PrivateTrainer(
            model,
            axes,
            PLAN,
            objective_for(data.form),
            device=torch.device("cpu"),
            randomness=Randomness(key),
        )
        before = torch.get_rng_state()
        for _ in range(3):
            trainer.step(data, 1.0, 48)  # three passes
        assert torch.equal(torch.get_rng_state(), before)
        return torch.cat(found)

    first, again, other = masks(b"k" * 32), masks(b"k" * 32), masks(b"l" * 32)
    assert torch.equal(first, again)
    assert len(torch.cat([first, other]).unique(dim=0)) == 2 * 3 * 3 * 48


def test_noise_that_no_grid_can_hold_is_refused_before_anything_is_paid_for(data):
    plan = dataclasses.replace(PLAN, noise_multiplier=1e14)
    with pytest.raises(ConfigError, match="too large for its grid"):
        private.PrivateTrainer(
            _linear(), probe(_linear(), data.x), plan, objective_for(data.form), device=torch.device("cpu")
        )


def test_with_proven_arithmetic_every_record_has_a_pass_of_its_own(data, monkeypatch):
    monkeypatch.setattr(private, "add_gaussian_noise", lambda clipped, **_: clipped.grads)
    monkeypatch.setattr(mixing_watch, "EVERY", 1)
    ends, sizes = [], []
    for arithmetic in ("assumed", "proven"):
        model, passes = _linear(), []
        plan = dataclasses.replace(PLAN, arithmetic=arithmetic)
        trainer = private.PrivateTrainer(
            model,
            probe(model, data.x),
            plan,
            objective_for(data.form),
            device=torch.device("cpu"),
            randomness=Randomness(bytes(32)),
        )
        model.register_forward_pre_hook(lambda _, inputs, passes=passes: passes.append(len(inputs[0])))
        trainer.step(data, 0.3, 64)
        ends.append(model.weight.detach())
        sizes.append(set(passes))
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-6)
    assert sizes[1] == {1}
    assert max(sizes[0]) > 1
    assert trainer.choose_rows(64) == 1
    assert trainer.most_at_once == 1
    passes.clear()
    trainer.rehearse(64)
    assert passes == [1, 1]


def test_with_proven_arithmetic_a_record_that_raises_contributes_nothing(data, caplog):
    torch.manual_seed(0)
    model = _Raises()
    x = data.x.clone()
    x[3] = 1000.0
    plan = dataclasses.replace(PLAN, arithmetic="proven")
    trainer = private.PrivateTrainer(
        model, probe(model, data.x), plan, objective_for(data.form), device=torch.device("cpu")
    )
    found = trainer._clipped_sum(TensorData(x, data.y, data.classes), torch.arange(7), 64)
    expected = trainer._clipped_sum(data, torch.tensor([0, 1, 2, 4, 5, 6]), 64)
    assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert "an example contributes nothing: a value above 100" in caplog.text


def test_with_proven_arithmetic_memory_is_a_records_own_fault(data, monkeypatch, caplog):
    """A tensor as large as a record says: all others count, and an answer comes."""
    plan = dataclasses.replace(PLAN, arithmetic="proven")
    trainer = private.PrivateTrainer(
        _linear(), probe(_linear(), data.x), plan, objective_for(data.form), device=torch.device("cpu")
    )
    honest = trainer._losses_of

    def hungry(inputs, labels):
        if torch.equal(inputs[0], data.x[2]):
            torch.empty(2**60)
        return honest(inputs, labels)

    monkeypatch.setattr(trainer, "_losses_of", hungry)
    found = trainer._clipped_sum(data, torch.arange(5), 64)
    monkeypatch.setattr(trainer, "_losses_of", honest)
    expected = trainer._clipped_sum(data, torch.tensor([0, 1, 3, 4]), 64)
    assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert "contributes nothing" in caplog.text
