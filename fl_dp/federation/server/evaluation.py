"""Evaluates the global model, and the answer that needs no model, on public test data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from fl_dp.errors import DataError
from fl_dp.federation.server.nowhere import ConstantAnswer
from fl_dp.tasks.metric import metrics_of
from fl_dp.tasks.task import Task
from fl_dp.training.losses import loss_of

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


def constant_answer(data: "TensorData", task: Task) -> ConstantAnswer | None:
    """What the same answer for all records reaches; None for tokens, and for one's own loss or weights."""
    form, name = data.form, task.settings.loss
    if form.targets == "tokens" or not task.has_plain_losses:
        return None
    per_example, accuracy = loss_of(name).per_example, None
    if form.targets == "class":
        shares = torch.bincount(data.y, minlength=form.outputs).double() / len(data)
        accuracy, best = float(shares.max()), shares.clamp_min(1e-12).log()
    else:
        means = data.y.double().view(len(data), -1).mean(0)
        best = means.clamp(1e-6, 1 - 1e-6).logit() if name == "bce" else means
    targets = data.y if form.targets == "class" else data.y.double()

    def loss(outputs: torch.Tensor) -> float:
        return float(per_example(outputs.expand(len(data), -1), targets).mean())

    return ConstantAnswer(loss(best), accuracy, loss(torch.zeros_like(best)))
