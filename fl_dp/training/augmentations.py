"""The augmentations of images, each a row of the table at the end."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fl_dp.errors import ConfigError
from fl_dp.form import Form
from fl_dp.training.augmentation import Augmentation


def cropped(images: Tensor, uniform: Tensor, argument: str) -> Tensor:
    """Each image's window, by its two numbers: all (2 p + 1)^2 positions are equally likely."""
    most = int(argument)
    _, _, height, width = images.shape
    padded = F.pad(images, (most, most, most, most), mode="reflect")
    corner = (uniform * (2 * most + 1)).long()
    rows = corner[:, :1] + torch.arange(height)
    columns = corner[:, 1:] + torch.arange(width)
    number = torch.arange(len(images))[:, None, None]
    # an index on both sides of a slice puts the indexed axes first: (n, H, W, C)
    return padded[number, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def _check_crop(form: Form, argument: str) -> None:
    smallest = min(form.input_shape[1:])
    if argument not in map(str, range(1, smallest)):  # one way to write each
        raise ConfigError(
            f"augmentation = 'crop:{argument}': expected a number of pixels from 1 to {smallest - 1}, such "
            "as crop:4; the image is mirrored at its edge, and is no larger than that."
        )


def flipped(images: Tensor, uniform: Tensor, _argument: str) -> Tensor:
    """The images, mirrored where their number is below one half."""
    chosen = (uniform[:, 0] < 0.5).view(-1, 1, 1, 1)
    return torch.where(chosen, images.flip(-1), images)


CHOICES = {
    # a window of the image's size, shifted by at most so many pixels each way; edges are mirrored
    "crop": Augmentation(cropped, numbers=2, argument="PIXELS", check=_check_crop),
    # horizontally, with probability one half
    "flip": Augmentation(flipped, numbers=1),
}
