"""Share of examples whose class is among the model's first two choices."""

from torch import Tensor

from fl_dp.tasks.metric import Metric
from fl_dp.tasks.metrics.shares import share_of_equals


def _nearest(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The label itself where it is one of the two, else the first choice."""
    first_two = outputs.topk(2).indices
    return labels.where((first_two == labels[:, None]).any(1), first_two[:, 0]), labels


METRIC = Metric(lambda form: share_of_equals(), targets=("class",), prepare=_nearest)
