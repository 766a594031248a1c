"""Of each class the share of its examples whose class is the model's first choice; none without examples."""

from typing import Any

from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric, first_choices


class _PerClass(MulticlassConfusionMatrix):
    def compute(self) -> Tensor:
        counts = super().compute().double()  # (classes, classes): what is so, what was chosen
        return counts.diagonal() / counts.sum(1)


def _make(form: Form) -> Any:
    return _PerClass(max(2, form.outputs))


METRIC = Metric(_make, targets=("class",), prepare=first_choices)
