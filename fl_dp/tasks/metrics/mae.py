"""Mean absolute error, over all numbers."""

from typing import Any

from torch import Tensor
from torchmetrics import MeanAbsoluteError

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric


def _make(form: Form) -> Any:
    return MeanAbsoluteError()


def _flat(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return outputs.flatten(), targets.flatten()


METRIC = Metric(_make, targets=("numbers",), prepare=_flat)
