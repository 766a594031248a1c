"""Added to the augmentations."""

import torch
from torch import Tensor

from fl_dp.training.augmentation import Augmentation


def negative(images: Tensor, uniform: Tensor, _argument: str) -> Tensor:
    return torch.where((uniform[:, 0] < 0.5).view(-1, 1, 1, 1), 1 - images, images)


CHOICES = {
    # light and dark changed over, with a chance of one half
    "negative": Augmentation(negative, numbers=1),
}
