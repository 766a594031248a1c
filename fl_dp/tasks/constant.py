"""The best constant prediction, the same for all test records: a model that is not better is useless.

It is computed from the targets of the server's test records, which privacy does not protect.
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
    """The answer with the least mean loss on `data`, class weights ignored.

    None if the task has its own outputs or losses, for which the best answer is unknown; or if the answer
    would reveal fewer than LEAST_CELL records or persons, such as those of the other classes.
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
    """Whether there are few records (or persons) in all, in a class that occurs, or outside of the most
    frequent class. Loss and accuracy together reveal the sizes of three classes.
    """
    y, form = data.y, task.form
    if form.targets == "class":
        sides = [*(y == one for one in set(y.tolist())), y != y.mode().values]
    elif form.targets == "numbers" and task.settings.loss == "bce":
        sides = [side for label in y.reshape(len(y), -1).T for side in (label > 0, label <= 0)]
    else:
        sides = [torch.ones(len(y), dtype=torch.bool)]
    persons = data.groups if task.settings.unit_name == PERSON else ()
    units = persons or range(len(y))
    return any(len({units[i] for i in side.nonzero()[:, 0].tolist()}) < LEAST_CELL for side in sides)
