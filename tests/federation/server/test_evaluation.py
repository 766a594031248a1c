"""Loss and accuracy against one example at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.federation.server import evaluation
from fl_dp.tasks.task import Task


def test_evaluation_equals_one_example_at_a_time(monkeypatch):
    monkeypatch.setattr(evaluation, "BATCH_SIZE", 4)  # 10 = 4 + 4 + 2
    generator = torch.Generator().manual_seed(0)
    data = TensorData(
        torch.randn(10, 5, generator=generator),
        torch.randint(3, (10,), generator=generator),
        ("a", "b", "c"),
    )
    model = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5))  # off in evaluation
    task = Task(TaskSettings())
    task.form = data.form
    result = evaluation.evaluate(model, data, task, torch.device("cpu"))
    logits = [model[0](data.x[i : i + 1]) for i in range(10)]
    losses = [F.cross_entropy(logits[i], data.y[i : i + 1]).item() for i in range(10)]
    right = [logits[i].argmax().item() == data.y[i].item() for i in range(10)]
    assert result.loss == pytest.approx(sum(losses) / 10)
    assert result.metrics == {"accuracy": pytest.approx(sum(right) / 10)}
