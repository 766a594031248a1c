"""The descriptor of a model: the constant `MODEL` of a file in architectures/."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class Model:
    """A model that users can choose.

    build: takes the data's `Form` and, if there is one, the argument. The model maps inputs (n, *input_shape)
    to outputs (n, *output_shape). ValueError, with the reason, for a form that it cannot take.
    argument: its name in errors, NAME of `torchvision:NAME`. None: there is none.
    optional: the argument may be left out; `build` then has its own default.
    common: for an argument that is a site's own path: returns what sites compare instead. ConfigError for a
    path that does not exist.
    """

    build: Callable[..., nn.Module]
    argument: str | None = None
    optional: bool = False
    common: Callable[[str], str] | None = None
