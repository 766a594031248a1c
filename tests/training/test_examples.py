"""A step on persons is exact: one clipped gradient a person, of the mean loss of its records."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from definition import assert_equal, clipped_one_by_one, length
from structured import Called
from torch import nn
from trainers import CPU, plan_of, trainer_for

from fl_dp.data.persons import PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.errors import ModelError, ProbeError
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.training.examples import axes_of
from fl_dp.training.objective import Objective
from fl_dp.training.step import draw

MOST = 3
COUNTS = (1, 2, 9, 3, 1, 4)  # records of each person
PLAN = plan_of(expected_batch_size=3, max_grad_norm=0.1, unit="person, first 3 records")


def attention():
    """Attention over positions, and an embedding that is also the last layer."""
    layers = nn.ModuleList([nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)])
    return Called(layers, lambda m, x: F.linear(m[1](m[0](x)).mean(1), m[0].weight))


class Checkpointed(nn.Sequential):
    def forward(self, x):
        return self[1](
            torch.utils.checkpoint.checkpoint(lambda x: torch.tanh(self[0](x)), x, use_reentrant=False)
        )


def convolutions():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Conv2d(4, 4, 2), nn.Flatten(), nn.Linear(16, 11)
    )


MODELS = {
    "linear": (lambda: nn.Linear(6, 11), (6,)),
    "convolutions": (convolutions, (2, 5, 5)),
    "attention": (attention, (4,)),
    "checkpointed": (lambda: Checkpointed(nn.Linear(6, 8), nn.Linear(8, 11)), (6,)),
    "mlp": (lambda: build_model("mlp", Form((6,), 11), seed=0), (6,)),
}


def data_of(shape, tokens, most=MOST):
    generator = torch.Generator().manual_seed(1)
    owners = tuple(f"person {k}" for k, count in enumerate(COUNTS) for _ in range(count))
    n = len(owners)
    x = torch.randn(n, *shape, generator=generator)
    x = torch.randint(11, x.shape, generator=generator) if tokens else x
    y = torch.randint(11, (n,), generator=generator)
    return PersonData(TensorData(x, y, tuple("abcdefghijk"), 11 if tokens else 0, groups=owners), most)


def objective_of(data):
    def losses(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1], reduction="none")

    return Objective(losses, data.form, data.most)


def trainer_of(model, data, plan=PLAN, **options):
    return trainer_for(model, objective_of(data), plan, **options)


def losses_one_by_one(model, data):
    """Of each person the mean of its records' losses, in double precision, for one backward pass each."""
    for person in range(len(COUNTS)):
        rows = [i for i, name in enumerate(data.records.groups) if name == f"person {person}"][: data.most]
        inputs, targets = data.records.batch(torch.tensor(rows))
        yield F.cross_entropy(model(inputs.double() if inputs.is_floating_point() else inputs), targets)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kernel", ["mixed", "ghost", "instantiate"])
def test_the_clipped_sum_is_that_of_one_backward_pass_for_each_person(name, kernel):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, data = make(), data_of(shape, tokens=name == "attention")
    trainer = trainer_of(model, data, chooser=KernelChooser(mode=kernel))
    model.double()
    inputs, targets, shares = data.batch(torch.arange(len(COUNTS)))
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    found = trainer.clipped.sum_of_pass((inputs, targets, shares.double()), 8)
    expected = clipped_one_by_one(model, losses_one_by_one(model, data), PLAN.max_grad_norm)
    assert_equal({key: grad.double() for key, grad in found.grads.items()}, expected)


@pytest.mark.parametrize("count", [1, 200])
def test_a_person_with_any_number_of_any_records_moves_the_sum_by_at_most_the_bound(count):
    """Also with records that are all alike, so that their gradients add up to their full length."""
    generator = torch.Generator().manual_seed(count)
    others = data_of((6,), tokens=False).records
    x = torch.cat([others.x, 1e3 * torch.randn(1, 6, generator=generator).expand(count, 6)])
    y = torch.cat([others.y, torch.full((count,), 5)])
    whole = TensorData(x, y, others.classes, groups=(*others.groups, *["the one"] * count))
    model = nn.Linear(6, 11)
    with_it, without = PersonData(whole, MOST), PersonData(others, MOST)
    trainer = trainer_of(model, with_it)
    more, less = (
        trainer.clipped.sum_of_pass(d.batch(torch.arange(len(d))), 8).grads for d in (with_it, without)
    )
    assert len(with_it) == len(without) + 1
    moved = length({name: more[name] - less[name] for name in more})
    assert 0.99 * PLAN.max_grad_norm < moved <= PLAN.max_grad_norm * (1 + 1e-3)


@pytest.mark.parametrize("arithmetic", ["steady-rows", "proven"])
def test_a_step_is_the_same_in_any_physical_batch(arithmetic):
    plan = dataclasses.replace(PLAN, arithmetic=arithmetic, steps=2, noise_multiplier=1e-3)
    found = []
    for rows in (1, 8):
        torch.manual_seed(0)
        model, data = nn.Linear(6, 11), data_of((6,), tokens=False)
        trainer = trainer_of(model, data, plan, key=b"k" * 32)
        for _ in range(2):
            clipped = trainer._clipped_sum(data, draw(trainer.rule, trainer.source, len(data), 0.5), rows)
            found.append(clipped.grads["weight"].double())
            trainer.begin_step()
    assert torch.allclose(found[0], found[2], atol=1e-7)
    assert torch.allclose(found[1], found[3], atol=1e-7)
    assert not torch.allclose(found[0], found[1], atol=1e-7)


def test_a_model_that_mixes_persons_is_refused():
    data = data_of((6,), tokens=False)
    with pytest.raises((ModelError, ProbeError)):
        axes_of(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 11)), objective_of(data), CPU)


def test_losses_of_another_shape_are_refused():
    data = data_of((6,), tokens=False)
    wrong = Objective(lambda model, batch: model(batch[0]).sum(1)[::3], data.form, MOST)
    with pytest.raises(ModelError, match=r"Expected losses of shape \(18,\), one for each row"):
        wrong.losses(nn.Linear(6, 11), data.batch(torch.arange(6)))


def test_random_numbers_for_a_rehearsal_have_the_shape_of_persons():
    inputs, targets, shares = objective_of(data_of((6,), tokens=False)).blank(2)
    assert (inputs.shape, targets.shape) == ((2, MOST, 6), (2, MOST))
    assert shares.tolist() == [pytest.approx([1 / MOST] * MOST)] * 2
