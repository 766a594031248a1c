"""F1, the harmonic mean of precision and recall: of the second of two classes, else the mean over classes.

For labels, each 0 or 1, the mean over the labels. 0 if nothing was found and nothing was there.
"""

from typing import Any

from torch import Tensor
from torchmetrics.classification import BinaryF1Score, MulticlassF1Score, MultilabelF1Score

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, first_choices


def _make(form: Form) -> Any:
    if form.targets == "numbers":
        return MultilabelF1Score(form.outputs) if form.outputs > 1 else BinaryF1Score()
    if form.targets == "class" and form.outputs <= 2:
        return BinaryF1Score()
    return MulticlassF1Score(form.outputs, average="macro", ignore_index=-100)


def _choices(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if not targets.is_floating_point():
        return first_choices(outputs, targets)
    said, so = (outputs.view_as(targets) > 0).int(), targets.int()
    one = targets.ndim == 1 or targets.shape[1] == 1
    return (said.flatten(), so.flatten()) if one else (said, so)


METRIC = Metric(_make, targets=("class", "tokens", "numbers"), prepare=_choices)
