"""Mean absolute error of each declared subgroup, over all numbers of its examples.

Withheld where it would tell of few examples, see `fl_dp/tasks/small_cells.py`.
"""

from torch import Tensor

from fl_dp.tasks.metric import Metric
from fl_dp.tasks.parts import SUBGROUP


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.view_as(targets) - targets).double().abs().reshape(len(targets), -1).mean(1)


METRIC = Metric(None, targets=("numbers",), each=_errors, part=SUBGROUP)
