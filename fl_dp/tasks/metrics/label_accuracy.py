"""Share of an example's labels, each 0 or 1, for which the model's logit has the right sign."""

from torch import Tensor

from fl_dp.form import Form
from fl_dp.tasks.metric import Metric
from fl_dp.tasks.right_answers import RightAnswers


def _make(form: Form) -> RightAnswers:
    return RightAnswers()


def _sides(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return (outputs > 0).flatten().int(), targets.flatten().int()


METRIC = Metric(_make, targets=("numbers",), prepare=_sides)
