"""Descent with momentum is torch.optim.SGD's."""

import subprocess
import sys

import pytest
import torch

from fl_dp.training.sgd import MomentumSGD


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_are_those_of_torch(momentum):
    torch.manual_seed(0)
    ours = [torch.randn(3, 4), torch.randn(5), torch.randn(2)]
    theirs = [p.clone().requires_grad_() for p in ours]
    optimizer = torch.optim.SGD(theirs, lr=0.3, momentum=momentum)
    descent = MomentumSGD(ours, learning_rate=0.3, momentum=momentum)
    for _ in range(5):
        gradients = [torch.randn(3, 4), torch.randn(5), None]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        before = [None if gradient is None else gradient.clone() for gradient in gradients]
        descent.step(gradients)
        assert all(old is None or torch.equal(new, old) for new, old in zip(gradients, before, strict=True))
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, yours.detach(), rtol=0, atol=0)


def test_a_private_step_and_asking_for_an_optimizer_leave_the_compiler_out():
    """Processes that check settings take no step, and those that take steps should not wait for it."""
    code = """
import sys, torch
from fl_dp.training.optimizers import settings_of
settings_of("adam", "")
from fl_dp.engine.probe import probe
from fl_dp.records import RoundPlan
from fl_dp.data.tensor_data import TensorData
from fl_dp.config.task import TaskSettings
from fl_dp.tasks.task import Task
from fl_dp.training.private import PrivateTrainer
data = TensorData(torch.randn(9, 3), torch.zeros(9, dtype=torch.int64), ("a", "b"))
model = torch.nn.Linear(3, 2)
plan = RoundPlan("r", 1, "m", 1, 3, 1.0, 0.5, 1.0, 1.0)
task = Task(TaskSettings())
task.form = data.form
cpu = torch.device("cpu")
PrivateTrainer(model, probe(model, data.x), plan, task.objective, device=cpu).step(data, 0.5, 4)
print(sorted({"sympy", "torch._dynamo"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
