"""Cross-entropy of logits with one label an example, or with the next token at each place, in nats.

Of tokens the mean over an example's places: each has the same weight, however many places count.
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
