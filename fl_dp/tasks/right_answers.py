"""The share of right answers, counted here: what every run reports by default.

torchmetrics has it, too, and is what the other metrics are made of. Its import brings torchvision,
transformers and Triton with it: four seconds of a core and 290 MB, which a run that asks for nothing else
does not need.
"""

from typing import Self

import torch
from torch import Tensor

NO_TARGET = -100  # what PyTorch's losses leave out


class RightAnswers:
    """Counts over batches; used as a metric of torchmetrics is."""

    def __init__(self) -> None:
        self._right = self._asked = 0

    def to(self, device: torch.device) -> Self:
        return self

    def update(self, answers: Tensor, targets: Tensor) -> None:
        """Both of any one shape, and whole numbers."""
        asked = targets != NO_TARGET
        self._asked += int(asked.sum())
        self._right += int(((answers == targets) & asked).sum())

    def compute(self) -> Tensor:
        """(): the share over all batches, float64; NaN where nothing was asked."""
        return torch.tensor(self._right, dtype=torch.float64) / self._asked
