"""R2: 1 minus the squared error over that of the targets' own mean; for several numbers the mean over them.

Undefined for a single example, and if a number is the same for all of them.
"""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import R2Score

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric

_EQUAL = 1e-12  # of the squares: below it the variance is rounding error


class _R2(R2Score):
    def compute(self) -> Tensor:
        spread = self.sum_squared_error - self.sum_error * self.sum_error / self.total
        alike = spread <= _EQUAL * self.sum_squared_error
        return torch.tensor(torch.nan) if self.total < 2 or alike.any() else super().compute()


def _make(form: Form) -> Any:
    return _R2()


def _columns(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Float64, so that sums of squares do not cancel."""
    return tuple(one.double().reshape(len(targets), -1) for one in (outputs, targets))  # type: ignore[return-value]


METRIC = Metric(_make, targets=("numbers",), prepare=_columns)
