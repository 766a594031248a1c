"""Horizontal flip, with probability one half."""

import torch
from torch import Tensor

from fl_dp.training.augmentation import Augmentation


def flipped(images: Tensor, uniform: Tensor, _argument: str) -> Tensor:
    """The images, mirrored where their number is below one half."""
    chosen = (uniform[:, 0] < 0.5).view(-1, 1, 1, 1)
    return torch.where(chosen, images.flip(-1), images)


AUGMENTATION = Augmentation(flipped, numbers=1)
