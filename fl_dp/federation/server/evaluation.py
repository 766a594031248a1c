"""Evaluates the global model on public test data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from fl_dp.config.data import PERSON
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DataError
from fl_dp.tasks.metric import metrics_of
from fl_dp.tasks.outcomes import are_told, of_test_records
from fl_dp.tasks.task import Task
from fl_dp.training.objective import Batch

BATCH_SIZE = 512


@dataclass(frozen=True, slots=True)
class Evaluation:
    """loss: the mean of the task's loss. metrics: by name; None if not defined on these data."""

    loss: float
    metrics: Mapping[str, float | None]


def halves(data: TensorData) -> tuple[TensorData, TensorData]:
    """Split the test data into validation and test halves; the same data give the same split.

    DataError for a single record.
    """
    if len(data) < 2:
        raise DataError(
            'keep-model = "best" needs at least two test records: one to choose by, one to measure by.'
        )
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    return data.subset(order[: len(data) // 2]), data.subset(order[len(data) // 2 :])


@torch.no_grad()
def evaluate(
    model: nn.Module, data: TensorData, task: Task, device: torch.device, metrics_wanted: Sequence[str] = ()
) -> Evaluation:
    """Evaluate in evaluation mode, in which the model is left; losses add up in float64.

    metrics_wanted: names of metrics that replace the task's.
    """
    loss, metrics = torch.zeros((), dtype=torch.float64), metrics_of(task, metrics_wanted, data)
    model.to(device).eval()
    for batch in _batches(data, device):
        losses, outputs = task.losses_and_outputs(model, batch)
        loss += losses.double().sum().cpu()
        metrics.update(outputs, batch[1])
    return Evaluation(loss.item() / len(data), metrics.values(data.classes))


def try_own_metrics(
    model: nn.Module, data: TensorData, task: Task, device: torch.device, metrics_wanted: Sequence[str] = ()
) -> None:
    """ConfigError if one of the user's own metrics fails on the first weights, before any client has paid.

    metrics_wanted: as in `evaluate`; if given, none of the user's own is measured.
    """
    own = [one.__name__ for one in task.metrics if not isinstance(one, str)]
    if not own or metrics_wanted:
        return
    try:
        evaluate(model, data, task, device)
    except Exception as error:
        raise ConfigError(
            f"metrics of the task ({', '.join(own)}) cannot be measured on the test data before the first "
            f"round: {type(error).__name__}: {error}. A function takes all outputs and all targets, and "
            "returns a number or a tensor."
        ) from error


@torch.no_grad()
def outcomes(
    model: nn.Module, data: TensorData | None, task: Task, device: torch.device
) -> Mapping[str, object]:
    """What the page draws of the model's answers (`tasks/outcomes.py`); empty without data or classes."""
    if data is None or not are_told(data.form):
        return {}
    model.to(device).eval()
    found = torch.cat([task.outputs(model, inputs).double().cpu() for inputs, _ in _batches(data, device)])
    if found.shape != (len(data), data.form.outputs):
        return {}  # the outputs of a user's own task may be anything
    return of_test_records(data, found.numpy(), data.groups if task.settings.unit_name == PERSON else ())


def _batches(data: TensorData, device: torch.device) -> Iterator[Batch]:
    for start in range(0, len(data), BATCH_SIZE):
        inputs, targets = data.batch(torch.arange(start, min(start + BATCH_SIZE, len(data))))
        yield inputs.to(device), targets.to(device)
