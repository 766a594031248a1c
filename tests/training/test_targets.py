"""Targets of every shape train: a class, several labels, several numbers, the next token at each place."""

import pytest
import torch
from objectives import objective_for
from torch import nn
from trainers import plan_of, trainer_for

from fl_dp.data.tensor_data import TensorData
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.models.build import build_model
from fl_dp.records import PROVEN
from fl_dp.training.trainer import take_steps

RECORDS = 30


def _data(kind):
    numbers, tokens = torch.randn(RECORDS, 5), torch.randint(0, 11, (RECORDS, 7))
    labels = torch.randint(0, 2, (RECORDS, 3))
    if kind == "classes":
        return TensorData(numbers, labels[:, 0], ("a", "b")), "linear", "cross-entropy"
    if kind == "labels":
        return TensorData(numbers, labels.float(), ()), "mlp:8", "bce"
    if kind == "numbers":
        return TensorData(numbers, numbers[:, :2], ()), "linear", "mse"
    return TensorData(tokens[:, :-1], tokens[:, 1:], tuple("abcdefghijk"), 11), "transformer", "cross-entropy"


def _trainer(kind, **changes):
    torch.manual_seed(0)
    data, name, loss = _data(kind)
    model, usual = build_model(name, data.form, seed=0), {"expected_batch_size": 8, "max_grad_norm": 0.5}
    return model, data, trainer_for(model, objective_for(data.form, loss), plan_of(**usual | changes))


KINDS = pytest.mark.parametrize("kind", ["classes", "labels", "numbers", "tokens"])


@KINDS
@pytest.mark.parametrize("changes", [{}, {"arithmetic": PROVEN}, {"private": False, "noise_multiplier": 0.0}])
def test_steps(kind, changes):
    model, data, trainer = _trainer(kind, **changes)
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    trainer.check_losses()
    trainer.rehearse(8)
    trainer.draw_from(Randomness.system())
    take_steps(trainer, data, 2, 0.3, 8)
    after = nn.utils.parameters_to_vector(model.parameters())
    assert after.dtype == torch.float32
    assert after.isfinite().all()
    assert not torch.equal(before, after)


@KINDS
def test_what_fills_a_pass_up_counts_for_nothing(kind):
    _, data, trainer = _trainer(kind)
    examples = data.batch(torch.arange(5))
    few, many = (trainer.clipped.sum_of_pass(examples, rows) for rows in (8, 16))
    alone = [trainer.clipped.sum_of_pass(data.batch(torch.tensor([i])), 8) for i in range(5)]
    for name, grad in few.grads.items():
        torch.testing.assert_close(many.grads[name], grad, rtol=1e-4, atol=1e-6)
        expected = sum(one.grads[name].double() for one in alone).to(grad)
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-5)
