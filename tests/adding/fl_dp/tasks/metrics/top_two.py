"""Share of examples whose class is among the model's first two choices."""

from torch import Tensor

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric
from fl_dp.tasks.right_answers import RightAnswers


def _make(form: Form) -> RightAnswers:
    return RightAnswers()


def _nearest(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The label itself where it is one of the two, else the first choice."""
    choices = outputs.topk(2).indices
    right = (choices == labels[:, None]).any(1)
    return labels.where(right, choices[:, 0]), labels


METRIC = Metric(_make, targets=("class",), prepare=_nearest)
