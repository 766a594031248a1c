"""Binary cross-entropy of logits with several labels an example, each 0 or 1: the mean over the labels."""

import torch.nn.functional as F
from torch import Tensor

from fl_dp.training.loss import Loss


def _per_example(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = F.binary_cross_entropy_with_logits(outputs, targets.view_as(outputs), reduction="none")
    return losses.flatten(1).mean(1)


LOSS = Loss(per_example=_per_example, targets=("numbers",), metrics=("label-accuracy",))
