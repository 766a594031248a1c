"""Of each class the share of its examples whose class is the model's first choice.

None of a class with fewer than LEAST_CELL test examples. Where that is one class alone, the least of the
others is withheld with it: else a mean over all classes, such as balanced-accuracy, would tell it.
"""

from typing import Any

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix

from fl_dp.form import Form
from fl_dp.records import LEAST_CELL
from fl_dp.tasks.metric import Metric, first_choices


class _PerClass(MulticlassConfusionMatrix):
    def compute(self) -> Tensor:
        counts = super().compute().double()  # (classes, classes): what is so, what was chosen
        sizes = counts.sum(1)  # (classes,)
        return (counts.diagonal() / sizes).where(~_withheld(sizes), torch.nan)


def _withheld(sizes: Tensor) -> Tensor:
    """(classes,) of which classes nothing is said, from their numbers of examples."""
    few = sizes < LEAST_CELL
    if int((few & (sizes > 0)).sum()) == 1 and not bool(few.all()):
        few[sizes.masked_fill(few, torch.inf).argmin()] = True
    return few


def _make(form: Form) -> Any:
    return _PerClass(max(2, form.outputs))


METRIC = Metric(_make, targets=("class",), prepare=first_choices)
