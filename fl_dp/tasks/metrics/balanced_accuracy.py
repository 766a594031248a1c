"""Mean over the classes of the share of their examples whose class is the model's first choice.

Only classes with examples count; a constant model scores 1 over their number.
"""

from typing import Any

from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, first_choices


class _Balanced(MulticlassConfusionMatrix):
    def compute(self) -> Tensor:
        counts = super().compute().double()  # (classes, classes): target, first choice
        return (counts.diagonal() / counts.sum(1)).nanmean()


def _make(form: Form) -> Any:
    return _Balanced(max(2, form.outputs))


METRIC = Metric(_make, targets=("class",), prepare=first_choices)
