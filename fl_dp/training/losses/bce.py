"""Binary cross-entropy of logits with several labels per example, each 0 or 1: the mean over the labels.

It uses `logsigmoid`, whose result does not depend on a number's place in the tensor. PyTorch's own binary
cross-entropy does: its backward pass computes the last few numbers of a batch with another sigmoid, so that
one more record changed the gradients of others (`tests/attacks/test_last_rows_of_a_pass.py`).
"""

import torch.nn.functional as F
from torch import Tensor

from fl_dp.training.loss import Loss


def _per_example(outputs: Tensor, targets: Tensor) -> Tensor:
    labels = targets.view_as(outputs)
    losses = -labels * F.logsigmoid(outputs) - (1 - labels) * F.logsigmoid(-outputs)
    return losses.flatten(1).mean(1)


LOSS = Loss(per_example=_per_example, targets=("numbers",), metrics=("label-accuracy",))
