"""Of each declared subgroup the share of its examples' labels, each 0 or 1, on whose side the logit lies.

As far as it tells of no few examples, see `fl_dp/tasks/small_cells.py`.
"""

from torch import Tensor

from fl_dp.tasks.metric import Metric
from fl_dp.tasks.parts import SUBGROUP


def _right(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs > 0) == (targets > 0)).double().reshape(len(targets), -1).mean(1)


METRIC = Metric(None, targets=("numbers",), each=_right, part=SUBGROUP)
