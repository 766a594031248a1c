"""What a loss has to say of itself: all that training, evaluation and audits need to know of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from fl_dp.choices import LOSSES
from fl_dp.form import Targets


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss over labelled examples.

    per_example: outputs (N, ...) and targets (N, ...) to losses (N,), each of its own example alone; the
    engine refuses a loss that mixes examples.
    targets: the kinds of targets that it is for, see `Form`. metrics: names of those that are reported of a
    model that was trained with it, unless others are asked for; the first stands in each round's line.
    """

    per_example: Callable[[Tensor, Tensor], Tensor]
    targets: tuple[Targets, ...]
    metrics: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def loss_of(name: str) -> Loss:
    """The loss of that name, from its file in `losses/`; ConfigError if there is none."""
    return LOSSES.load(name, Loss)
