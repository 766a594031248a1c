"""The best constant prediction, the same for all test records: a model that is not better is of no use.

It is made of the test records' targets alone, which privacy does not protect, and of no client's records.
"""

import torch
from torch import Tensor, nn

from fl_dp.config.data import PERSON
from fl_dp.data.tensor_data import TensorData
from fl_dp.records import LEAST_CELL
from fl_dp.tasks.task import Task

_MOST_LOGIT = 20.0


class ConstantPrediction(nn.Module):
    """answer: (k,) for each record, or for each position of one; output_shape: of one record."""

    def __init__(self, answer: Tensor, output_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("answer", answer)
        self.output_shape = output_shape

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, *output_shape)"""
        return self.get_buffer("answer").expand(len(inputs), *self.output_shape)


def constant_prediction(task: Task, data: TensorData) -> ConstantPrediction | None:
    """The answer whose mean loss on `data` is least; with class weights, if all were equal.

    None if the task has outputs or losses of its own, whose best answer is not known; or if it would tell of
    fewer than LEAST_CELL records, or persons: those of the other classes, say.
    """
    form, y = task.form, data.y
    if not task.has_built_in_outputs_and_losses or _few(task, data):
        return None
    if form.targets == "numbers":
        means = y.double().reshape(len(y), -1).mean(0)
        answer = means.logit().clamp(-_MOST_LOGIT, _MOST_LOGIT) if task.settings.loss == "bce" else means
    else:
        counts = torch.bincount(y[y >= 0], minlength=form.outputs).double()
        answer = (counts / counts.sum()).log().clamp_min(-_MOST_LOGIT)
    return ConstantPrediction(answer.float(), form.output_shape)


def _few(task: Task, data: TensorData) -> bool:
    """Whether few records, or persons, are in a class that occurs, or outside of the most frequent one; or
    few in all. From loss and accuracy together three classes' sizes can be derived.
    """
    y, form = data.y, task.form
    if form.targets == "class":
        sides = [*(y == one for one in set(y.tolist())), y != y.mode().values]
    elif form.targets == "numbers" and task.settings.loss == "bce":
        sides = [side for label in y.reshape(len(y), -1).T for side in (label > 0, label <= 0)]
    else:
        sides = [torch.ones(len(y), dtype=torch.bool)]
    if data.groups and task.settings.unit_name == PERSON:
        return any(
            len({data.groups[i] for i in side.nonzero()[:, 0].tolist()}) < LEAST_CELL for side in sides
        )
    return any(int(side.sum()) < LEAST_CELL for side in sides)
