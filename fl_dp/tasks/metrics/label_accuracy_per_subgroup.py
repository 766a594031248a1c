"""For each declared subgroup, the share of its examples' 0/1 labels whose logit has the right sign.

Withheld where it would tell of few examples, see `fl_dp/tasks/small_cells.py`.
"""

from torch import Tensor

from fl_dp.tasks.metric import Metric
from fl_dp.tasks.parts import SUBGROUP


def _right(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs > 0) == (targets > 0)).double().reshape(len(targets), -1).mean(1)


METRIC = Metric(None, targets=("numbers",), each=_right, part=SUBGROUP)
