"""Trainers with a recorder take the steps of those without one, to the bit."""

import pytest
import torch
from objectives import objective_for
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.engine.gradients import settled
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.tracing.draws import kept_random_state
from fl_dp.form import Form
from fl_dp.training import recorder as module
from fl_dp.training.recorder import Recorder

ROWS = 24
OBJECTIVE = objective_for(Form((5,), 3))  # all clients of a process have the same


def mlp(dropout=0.2):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(dropout), nn.Tanh(), nn.Linear(8, 3)).train()


def trainer_of(model, data, recorder=None, kernels="instantiate", **plan):
    fixed = {name: kernels for name, p in model.named_parameters() if p.dim() > 1} if kernels else {}
    given = {"key": bytes(32), "chooser": KernelChooser(fixed=fixed), "recorder": recorder}
    return trainer_for(model, OBJECTIVE, plan_of(**plan), **given)


def after_steps(data, recorder, **plan):
    model = mlp()
    trainer = trainer_of(model, data, recorder, **plan)
    for _ in range(6):
        trainer.step(data, 0.5, ROWS)
    return [p.detach() for p in model.parameters()]


@pytest.fixture
def replays(monkeypatch):
    monkeypatch.setattr(module, "_LONGEST", 60.0)  # or a busy machine decides what is recorded
    seen = []
    replay = module.Recorded.__call__
    monkeypatch.setattr(module.Recorded, "__call__", lambda *a: (seen.append(1), replay(*a))[1])
    return seen


@pytest.mark.parametrize("plan", [{}, {"momentum": 0.9, "max_grad_norm": 0.1}])
def test_steps_are_the_same_to_the_bit(data, replays, plan):
    own, recorded = (after_steps(data, recorder, **plan) for recorder in (None, Recorder(after=0.0)))
    assert all(map(torch.equal, own, recorded))
    assert len(replays) > 4


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("harm", ["not finite", "no class"])
def test_a_bad_example_contributes_nothing_and_the_others_as_ever(data, replays, harm, dropout):
    """A label that is no class raises: all examples are then computed one by one, as without a recorder."""
    x, y = (part.clone() for part in data.batch(torch.arange(10)))
    if harm == "not finite":
        x[3] = torch.nan
    else:
        y[3] = 99
    own, recorded = (trainer_of(mlp(dropout), data, one) for one in (None, Recorder(after=0.0)))
    recorded.clipped.sum_of_pass(data.batch(torch.arange(10)), ROWS)
    replays.clear()
    with kept_random_state():
        torch.manual_seed(1)
        found = recorded.clipped.clipped_or_none((x, y), ROWS)
        torch.manual_seed(1)
        expected = own.clipped.clipped_or_none((x, y), ROWS)
    assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert torch.equal(found.norms[found.norms.isfinite()], expected.norms[expected.norms.isfinite()])
    assert (len(found.norms), found.num_non_finite) == ((10, 1) if harm == "not finite" else (9, 0))
    assert len(replays) == (1 if harm == "not finite" else 12)  # all, each alone, all that count


def test_trainers_of_one_model_replay_at_their_own_weights_bounds_rows_and_kernels(data, replays):
    model, recorder, batch = mlp(dropout=0.0), Recorder(after=0.0), data.batch(torch.arange(8))
    others = {"max_grad_norm": 0.01}, {"kernels": "ghost"}, {}
    for number, plan in enumerate([{}, *others, *others]):
        model[0].weight = nn.Parameter(torch.randn(8, 5, generator=torch.Generator().manual_seed(number)))
        ours, own = (trainer_of(model, data, one, **plan) for one in (recorder, None))
        for rows in (ROWS, 8):
            replays.clear()
            found, expected = (one.clipped.sum_of_pass(batch, rows) for one in (ours, own))
            assert all(torch.equal(found.grads[name], grad) for name, grad in expected.grads.items())
    assert len(replays) == 1


def test_buffers_are_inputs_and_no_gradient_moves_to_memory_of_its_own(data, replays, monkeypatch):
    """One that is large enough does elsewhere, if that memory is aligned."""
    monkeypatch.setattr(settled, "_moved", lambda grad: torch.from_numpy(grad.numpy().copy()))
    model = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 2048), nn.Linear(2048, 3))
    model[0].register_buffer("scale", torch.ones(()))
    recorder, batch = Recorder(after=0.0), data.batch(torch.arange(8))
    trainer = trainer_of(model, data, recorder, kernels="ghost")
    assert trainer._passes.state.keys() == {*dict(model.named_parameters()), "0.scale"}
    trainer.clipped.sum_of_pass(batch, ROWS)
    replays.clear()
    trainer.clipped.sum_of_pass(batch, ROWS)
    assert replays


@pytest.mark.parametrize("why", ["few", "long", "kernels not fixed", "refused"])
def test_passes_that_are_few_or_long_or_may_change_are_never_replayed(
    data, replays, monkeypatch, caplog, why
):
    if why == "long":
        monkeypatch.setattr(module, "_LONGEST", 0.0)
    if why == "refused":
        monkeypatch.setattr(module, "record", refuse)
        caplog.set_level("INFO")
    recorder = Recorder(after=1e9 if why == "few" else 0.0)
    trainer = trainer_of(mlp(), data, recorder, kernels="" if why == "kernels not fixed" else "ghost")
    for _ in range(3):
        trainer.step(data, 0.5, ROWS)
    assert not replays
    assert ("not recorded: no" in caplog.text) == (why == "refused")


def refuse(*_):
    raise module.NotRecordedError("no")
