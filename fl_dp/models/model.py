"""The descriptor of a model: the constant `MODEL` of a file in architectures/."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True)
class Model:
    """A model that users can choose.

    build: takes the data's `Form` and, if there is one, the argument. The model maps inputs (n, *input_shape)
    to outputs (n, *output_shape). For a form that it cannot take, `build` raises ValueError with the reason.
    argument: what users write after the name, as errors call it: NAME of `torchvision:NAME`. None: nothing.
    optional: the argument may be left out; `build` then has a default of its own.
    common: for an argument that is a site's own path: what sites compare instead. It raises ConfigError for a
    path that does not exist.
    """

    build: Callable[..., nn.Module]
    argument: str | None = None
    optional: bool = False
    common: Callable[[str], str] | None = None
