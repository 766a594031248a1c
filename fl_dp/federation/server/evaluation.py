"""Evaluates the global model, and answers that need no model, on public test data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from fl_dp.errors import DataError
from fl_dp.federation.server.nowhere import WithoutAModel
from fl_dp.tasks.constant import ConstantAnswer, constant_answer
from fl_dp.tasks.metric import metrics_of
from fl_dp.tasks.task import Task

if TYPE_CHECKING:
    from fl_dp.data.tensor_data import TensorData

BATCH_SIZE = 512


@dataclass(frozen=True, slots=True)
class Evaluation:
    """loss: the mean of the task's loss. metrics: by name; None if not defined on these data."""

    loss: float
    metrics: Mapping[str, float | None]


def halves(data: "TensorData") -> tuple["TensorData", "TensorData"]:
    """Split the test data into validation and test halves; the same data give the same split.

    DataError for a single record.
    """
    if len(data) < 2:
        raise DataError(
            'keep-model = "best" needs two test records at least: one to choose on, one to measure.'
        )
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    return data.subset(order[: len(data) // 2]), data.subset(order[len(data) // 2 :])


@torch.no_grad()
def evaluate(
    model: nn.Module, data: "TensorData", task: Task, device: torch.device, metrics_wanted: Sequence[str] = ()
) -> Evaluation:
    """Evaluate in evaluation mode, in which the model is left; losses add up in float64.

    metrics_wanted: names of metrics that replace the task's.
    """
    model.to(device).eval()
    loss, metrics = torch.zeros((), dtype=torch.float64), metrics_of(task, device, metrics_wanted, data)
    for start in range(0, len(data), BATCH_SIZE):
        indices = torch.arange(start, min(start + BATCH_SIZE, len(data)))
        inputs, targets = (part.to(device) for part in data.batch(indices))
        losses, outputs = task.losses_and_outputs(model, (inputs, targets))
        loss += losses.double().sum().cpu()
        metrics.update(outputs, targets)
    return Evaluation(loss.item() / len(data), metrics.values(data.classes))


def without_a_model(task: Task, data: "TensorData") -> WithoutAModel | None:
    """What answers reach that are the same for all records; None if they are not known, see `constant.py`."""
    best = constant_answer(task, data)
    if best is None:
        return None
    zero = ConstantAnswer(torch.zeros_like(best.get_buffer("answer")), best.output_shape)
    reached, odds = (evaluate(answer, data, task, torch.device("cpu")) for answer in (best, zero))
    return WithoutAModel(reached.loss, reached.metrics.get("accuracy"), odds.loss)
