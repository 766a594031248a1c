"""Cross-entropy of logits with one label per example, or with the next token at each position, in nats.

For tokens it is the mean over an example's positions: each has the same weight, however many positions count.
"""

import torch.nn.functional as F
from torch import Tensor

from fl_dp.training.loss import Loss


def _per_example(outputs: Tensor, targets: Tensor) -> Tensor:
    if targets.ndim == 1:
        return F.cross_entropy(outputs, targets, reduction="none")
    places = F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")  # 0 where none counts
    return places.sum(1) / (targets >= 0).sum(1).clamp_min(1)


LOSS = Loss(per_example=_per_example, targets=("class", "tokens"), metrics=("accuracy",))
