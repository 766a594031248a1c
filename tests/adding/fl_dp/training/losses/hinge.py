"""Multi-class hinge loss (Crammer, Singer 2001)."""

import torch.nn.functional as F
from torch import Tensor

from fl_dp.training.loss import Loss


def _per_example(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.multi_margin_loss(outputs, labels, reduction="none")


LOSS = Loss(_per_example, targets=("class",), metrics=("accuracy",))
