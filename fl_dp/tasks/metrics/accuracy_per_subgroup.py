"""For each declared subgroup, the share of its examples whose class is the model's first choice.

Withheld where it would tell of few examples, see `fl_dp/tasks/small_cells.py`.
"""

from fl_dp.tasks.metric import Metric, right
from fl_dp.tasks.parts import SUBGROUP

METRIC = Metric(None, targets=("class",), each=right, part=SUBGROUP)
