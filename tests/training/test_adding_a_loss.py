"""A loss is added by adding one file: all that trains, evaluates and audits then uses it."""

from typing import Any

HINGE = '''\
"""Multi-class hinge loss (Crammer, Singer 2001)."""

import torch.nn.functional as F
from torch import Tensor

from fl_dp.training.loss import Loss


def _per_example(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.multi_margin_loss(outputs, labels, reduction="none")


LOSS = Loss(_per_example, targets=("class",), metrics=("accuracy",))
'''

USE = """\
import dataclasses
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from fl_dp.audit.canaries import GradientCanaries
from fl_dp.audit.settings import Overrides, audit_own_model
from fl_dp.choices import LOSSES
from fl_dp.config.run import RunConfig
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.federation.server.planning import round_mechanism, round_plan
from fl_dp.records import ClientProfile, RoundPlan
from fl_dp.config.task import TaskSettings
from fl_dp.tasks.task import Task
from fl_dp.training.examples import axes_of
from fl_dp.training.trainer import take_steps, trainable_arrays, trainer_of

print(" ".join(LOSSES.names()))
generator = torch.Generator().manual_seed(0)
data = TensorData(torch.randn(40, 5, generator=generator), torch.arange(40) % 3, ("a", "b", "c"))
config = RunConfig(loss="hinge", noise_multiplier=1.0, expected_batch_size=8, physical_batch_size=8)
profile = ClientProfile("a", 40, 50.0, 1e-5, (), "rdp")
plan = round_plan(profile, round_mechanism(profile, config), config, "run", 1)
print(plan.loss)

# every record in one step, no clipping and next to no noise: the step is that of the mean hinge loss
whole = dataclasses.replace(
    plan, steps=1, expected_batch_size=40, learning_rate=1.0, max_grad_norm=1e3, noise_multiplier=1e-9
)
torch.manual_seed(1)
model = nn.Linear(5, 3)
loss = F.multi_margin_loss(model(data.x), data.y)
expected = model.weight.detach() - torch.autograd.grad(loss, model.weight)[0]
cpu = torch.device("cpu")
task = Task(TaskSettings(loss="hinge"))
task.form = data.form
print(abs(evaluate(model, data, task, cpu).loss - loss.item()) < 1e-6)
for private in (True, False):
    trained = nn.Linear(5, 3)
    trained.load_state_dict(model.state_dict())
    axes = axes_of(trained, task.objective, cpu)
    trainer = trainer_of(trained, dataclasses.replace(whole, private=private), task.objective, cpu, axes)
    trainer.rehearse(7)
    take_steps(trainer, data, 1, 1.0, 16)
    print((trained.weight - expected).abs().max().item() < 1e-5)
report = audit_own_model(RunConfig(loss="hinge", rounds=1, noise_multiplier=5.0), Overrides(steps=1), 20)
print(report.passed)
try:
    RunConfig(loss="hinges")
except ConfigError as error:
    print(error)
"""


def test_one_file_is_trained_evaluated_and_audited(copied: Any) -> None:
    copied.add("training/losses/hinge.py", HINGE)
    names, planned, *equal, audited, unknown = copied.lines(USE)
    assert names == "bce cross-entropy hinge mse"
    assert planned == "hinge"
    assert equal == ["True"] * 3
    assert audited == "True"
    assert unknown == "loss = 'hinges': expected bce or cross-entropy or hinge or mse; did you mean hinge?"
