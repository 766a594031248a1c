"""What a file in architectures/ says of its model: the constant `MODEL`."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class Model:
    """A model that users can choose.

    build: takes input_shape, num_classes and, if there is one, the argument. input_shape is that of one
    example: (C, H, W) of images or (d,) of features. The model maps (n, *input_shape) to logits
    (n, num_classes). For a shape that it cannot take, `build` raises ValueError with the reason.
    argument: what users write behind the name, as errors call it: NAME of `torchvision:NAME`. None: nothing.
    """

    build: Callable[..., nn.Module]
    argument: str | None = None
