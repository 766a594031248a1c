"""Share of examples, or of the places of tokens, whose class is the model's first choice."""

from typing import Any

from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric


def _make(form: Form) -> Any:
    return MulticlassAccuracy(max(2, form.outputs), average="micro", ignore_index=-100)


def _choices(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return outputs.argmax(-1).flatten(), targets.flatten()


METRIC = Metric(_make, targets=("class", "tokens"), prepare=_choices)
