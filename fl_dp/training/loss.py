"""What a loss has to say of itself: all that training, evaluation and audits need to know of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from fl_dp.choices import LOSSES


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss over labelled examples.

    per_example: outputs (N, classes) and labels (N,) to losses (N,), each of its own example alone; the
    engine refuses a loss that mixes examples.
    blank_labels: N valid labels for examples of random numbers, the same whatever the data.
    is_right: outputs and labels to (N,) bool, whether each counts as right; its mean is the accuracy.
    """

    per_example: Callable[[Tensor, Tensor], Tensor]
    blank_labels: Callable[[int], Tensor]
    is_right: Callable[[Tensor, Tensor], Tensor]


@lru_cache(maxsize=16)
def loss_of(name: str) -> Loss:
    """The loss of that name, from its file in `losses/`; ConfigError if there is none."""
    return LOSSES.load(name, Loss)
