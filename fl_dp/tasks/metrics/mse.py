"""Mean squared error, over all numbers."""

from typing import Any

from torch import Tensor
from torchmetrics import MeanSquaredError

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric


def _make(form: Form) -> Any:
    return MeanSquaredError()


def _flat(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return outputs.double().flatten(), targets.double().flatten()


METRIC = Metric(_make, targets=("numbers",), prepare=_flat)
