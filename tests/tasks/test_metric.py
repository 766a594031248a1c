"""A task's metrics on test data: each by its definition, and what is not defined says so."""

import pytest
import torch

from fl_dp.config.task import TaskSettings
from fl_dp.form import Form
from fl_dp.tasks.metric import metrics_of
from fl_dp.tasks.task import Task

CPU = torch.device("cpu")


def measured(form, batches, loss="cross-entropy", wanted=()):
    task = Task(TaskSettings(loss=loss))
    task.form, task.metrics = form, wanted
    metrics = metrics_of(task, CPU)
    for outputs, targets in batches:
        metrics.update(torch.as_tensor(outputs), torch.as_tensor(targets))
    return metrics.values()


def test_those_of_the_loss_unless_others_are_asked_for():
    logits = [[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 1.0]]
    batches = [(logits[:2], [0, 1]), (logits[2:], [1])]
    assert measured(Form((4,), 3), batches) == {"accuracy": pytest.approx(2 / 3)}
    numbers = [([[1.0], [2.0]], [0.5, 4.0])]
    assert measured(Form((4,), 1, "numbers"), numbers, "mse") == {"mae": pytest.approx(1.25)}
    labels = [([[1.0, -1.0], [2.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]])]
    assert measured(Form((4,), 2, "numbers"), labels, "bce") == {"label-accuracy": pytest.approx(0.75)}


def test_a_function_of_ones_own_sees_all_outputs_at_once():
    def most(outputs, targets):
        return (outputs.argmax(1) == targets).float().sum()

    def each(outputs, targets):
        return torch.stack([outputs[:, 0].mean(), outputs[:, 1].mean()])

    def undefined(outputs, targets):
        return torch.tensor(float("nan"))

    batches = [([[1.0, 0.0]], [0]), ([[0.0, 3.0]], [1])]
    assert measured(Form((4,), 2), batches, wanted=(most, each, undefined, "accuracy")) == {
        "most": 2.0, "each[0]": 0.5, "each[1]": 1.5, "undefined": None, "accuracy": 1.0,
    }  # fmt: skip
