"""Accuracy, counted here: what every run reports by default.

torchmetrics has it, too, and provides the other metrics. But importing it brings torchvision, transformers
and Triton: four seconds of a core and 290 MB, which a run that needs nothing else can avoid.
"""

from typing import Self

import torch
from torch import Tensor

NO_TARGET = -100  # ignored by PyTorch's losses


class RightAnswers:
    """Counts over batches, with the interface of a torchmetrics metric."""

    def __init__(self) -> None:
        self._right = self._asked = 0

    def to(self, device: torch.device) -> Self:
        return self

    def update(self, answers: Tensor, targets: Tensor) -> None:
        """Two integer tensors of the same shape."""
        asked = targets != NO_TARGET
        self._asked += int(asked.sum())
        self._right += int(((answers == targets) & asked).sum())

    def compute(self) -> Tensor:
        """(): the share over all batches, float64; NaN if there was nothing to answer."""
        return torch.tensor(self._right, dtype=torch.float64) / self._asked
