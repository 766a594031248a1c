"""Means over examples, which need no torchmetrics: of classes, of labels, and of each class or subgroup.

What is reported per class or per subgroup is withheld where it would tell of few examples, see
`fl_dp/tasks/small_cells.py`.
"""

from torch import Tensor

from fl_dp.tasks.metric import Metric, first_choices, right
from fl_dp.tasks.parts import CLASS, SUBGROUP
from fl_dp.tasks.right_answers import RightAnswers


def _signs(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return (outputs > 0).flatten().int(), targets.flatten().int()


def _right_signs(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs > 0) == (targets > 0)).double().reshape(len(targets), -1).mean(1)


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.view_as(targets) - targets).double().abs().reshape(len(targets), -1).mean(1)


CHOICES = {
    # share of examples, or of token positions, whose class is the model's first choice
    "accuracy": Metric(
        lambda form: RightAnswers(), targets=("class", "tokens"), prepare=first_choices, each=right
    ),
    "accuracy-per-class": Metric(None, targets=("class",), each=right, part=CLASS),
    "accuracy-per-subgroup": Metric(None, targets=("class",), each=right, part=SUBGROUP),
    # share of an example's labels, each 0 or 1, for which the model's logit has the right sign
    "label-accuracy": Metric(lambda form: RightAnswers(), targets=("numbers",), prepare=_signs),
    "label-accuracy-per-subgroup": Metric(None, targets=("numbers",), each=_right_signs, part=SUBGROUP),
    # mean absolute error, over all numbers of a subgroup's examples
    "mae-per-subgroup": Metric(None, targets=("numbers",), each=_errors, part=SUBGROUP),
}
