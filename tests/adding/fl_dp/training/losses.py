"""Added to the losses."""

import torch.nn.functional as F
from torch import Tensor

from fl_dp.training.losses import Loss


def _hinge(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.multi_margin_loss(outputs, labels, reduction="none")


CHOICES = {
    # multi-class hinge loss (Crammer, Singer 2001)
    "hinge": Loss(_hinge, targets=("class",), metrics=("accuracy",)),
}
