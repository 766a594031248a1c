"""Left and right changed over, with a chance of one half."""

import torch
from torch import Tensor

from fl_dp.training.augmentation import Augmentation


def flipped(images: Tensor, uniform: Tensor, _argument: str) -> Tensor:
    """Those whose number is below one half, as a mirror shows them."""
    chosen = (uniform[:, 0] < 0.5).view(-1, 1, 1, 1)
    return torch.where(chosen, images.flip(-1), images)


AUGMENTATION = Augmentation(flipped, numbers=1)
