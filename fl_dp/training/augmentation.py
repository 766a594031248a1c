"""Views of an image: changes that keep its label, such as a flip, drawn anew for every step.

Augmentation multiplicity (De, Berrada, Hayes, Smith, Balle 2022, arXiv 2204.13650): an example's loss is the
mean over several views of it. The example still has one gradient, which is clipped once. The privacy cost is
the same as without views: whatever is drawn, an example moves the sum by at most the clipping bound, and its
random numbers belong to no other example.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_dp.choices import AUGMENTATIONS
from fl_dp.errors import ConfigError
from fl_dp.form import Form

Words = Callable[[int, int], NDArray[np.uint64]]  # (example, count) -> that many uniform secret numbers
_BITS = 53  # of a float64 in [0, 1)


@dataclass(frozen=True, slots=True)
class Augmentation:
    """A change of images.

    apply: maps images (n, C, H, W), uniform numbers (n, numbers) in [0, 1) and the argument to images of the
    same shape; each image depends on its own numbers only. numbers: how many each image takes. argument: what
    users write after the colon; None if there is none. check: raises ConfigError for an argument that does
    not suit images of that form.
    """

    apply: Callable[[Tensor, Tensor, str], Tensor]
    numbers: int
    argument: str | None = None
    check: Callable[[Form, str], None] = lambda _form, _argument: None


@lru_cache(maxsize=16)
def augmentations_of(names: str) -> tuple[tuple[Augmentation, str], ...]:
    """The augmentations in `names`, comma-separated NAME or NAME:ARGUMENT, each with its argument."""
    found = []
    for word in filter(None, map(str.strip, names.split(","))):
        one = AUGMENTATIONS.load(word, Augmentation)
        found.append((one, AUGMENTATIONS.argument(word, one.argument)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Views:
    """number: views of each record, public. names: the augmentations, see `augmentations_of`."""

    number: int = 1
    names: str = ""

    def __bool__(self) -> bool:
        """Whether records are changed at all."""
        return bool(self.names)

    def check(self, form: Form) -> None:
        """ConfigError if records of that form cannot have these views."""
        if self and (len(form.input_shape) != 3 or form.vocabulary):
            raise ConfigError(
                f"augmentation = {self.names!r}: is for images, and the data have inputs of shape "
                f"{form.input_shape}; leave augmentation out."
            )
        for one, argument in augmentations_of(self.names):
            one.check(form, argument)

    def of(self, records: Tensor, examples: Tensor, words: Words) -> Tensor:
        """(n, k * number, C, H, W): views of the records (n, k, C, H, W); a record's views are adjacent.

        examples: (n,) the examples' places in the data. words: the step's secret numbers. An example's views
        follow from its own secret numbers, whatever else is in the batch.
        """
        n, k = records.shape[:2]
        images = records.repeat_interleave(self.number, dim=1).flatten(0, 1)
        uniform = self._uniform(examples, k * self.number, words)
        used = 0
        for one, argument in augmentations_of(self.names):
            images = one.apply(images, uniform[:, used : used + one.numbers], argument)
            used += one.numbers
        return images.view(n, k * self.number, *images.shape[1:])

    def _uniform(self, examples: Tensor, rows: int, words: Words) -> Tensor:
        """(n * rows, numbers) in [0, 1), float64. rows: rows of each example."""
        each = sum(one.numbers for one, _ in augmentations_of(self.names))
        found = np.empty((len(examples), rows * each))
        for place, example in enumerate(examples.tolist()):
            found[place] = (words(example, rows * each) >> np.uint64(64 - _BITS)) * 2.0**-_BITS
        return torch.from_numpy(found).view(-1, each)


AS_IT_IS = Views()
