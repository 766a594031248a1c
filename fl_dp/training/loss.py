"""What a loss has to say of itself: all that training, evaluation and audits need to know of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from fl_dp.choices import LOSSES
from fl_dp.errors import ConfigError
from fl_dp.form import Form, Targets


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss over labelled examples.

    per_example: outputs (N, ...) and targets (N, ...) to losses (N,), each of its own example alone; the
    engine refuses a loss that mixes examples.
    targets: the kinds of targets that it accepts, see `Form`. metrics: names of the metrics that are reported
    with this loss, unless others are asked for; the first stands in each round's line.
    """

    per_example: Callable[[Tensor, Tensor], Tensor]
    targets: tuple[Targets, ...]
    metrics: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def loss_of(name: str) -> Loss:
    """The loss of that name, from the table in `losses.py`; ConfigError if there is none."""
    return LOSSES.load(name, Loss)


def check_targets(name: str, form: Form) -> None:
    """ConfigError unless the loss of that name accepts the data's kind of targets."""
    loss = loss_of(name)
    if form.targets in loss.targets:
        return
    others = [other for other in LOSSES.built_in() if form.targets in loss_of(other).targets]
    raise ConfigError(
        f"loss = {name!r}: is for targets of {' or '.join(loss.targets)}, and the data have {form.targets}; "
        f"take {' or '.join(others)}, or other targets."
    )
