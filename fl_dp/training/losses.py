"""What a loss says of itself, and the losses, each a row of the table at the end.

Changing what one of them computes changes results: raise `fl_dp.records.NUMERICS` with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch.nn.functional as F
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
    one_hot = "; convert one-hot labels to classes with y.argmax(1)" if form.targets == "numbers" else ""
    others = [other for other in LOSSES.built_in() if form.targets in loss_of(other).targets]
    raise ConfigError(
        f"loss = {name!r}: is for targets of kind {' or '.join(loss.targets)}, and the data's are of kind "
        f"{form.targets}; use {' or '.join(others)}, or other targets{one_hot}."
    )


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    if targets.ndim == 1:
        return F.cross_entropy(outputs, targets, reduction="none")
    places = F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")  # 0 where none counts
    return places.sum(1) / (targets >= 0).sum(1).clamp_min(1)


def _bce(outputs: Tensor, targets: Tensor) -> Tensor:
    """By `logsigmoid`, whose result does not depend on a number's place in the tensor.

    PyTorch's own binary cross-entropy does: its backward pass computes the last few numbers of a batch with
    another sigmoid, so that one more record changed the gradients of others
    (`tests/attacks/test_last_rows_of_a_pass.py`).
    """
    labels = targets.view_as(outputs)
    losses = -labels * F.logsigmoid(outputs) - (1 - labels) * F.logsigmoid(-outputs)
    return losses.flatten(1).mean(1)


def _mse(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets.view_as(outputs)).square().flatten(1).mean(1)


CHOICES = {
    # Cross-entropy of logits with one label per example, or with the next token at each position, in nats.
    # For tokens it is the mean over an example's positions: each has the same weight, however many count.
    "cross-entropy": Loss(_cross_entropy, targets=("class", "tokens"), metrics=("accuracy",)),
    # binary cross-entropy of logits with several labels per example, each 0 or 1: the mean over the labels
    "bce": Loss(_bce, targets=("numbers",), metrics=("label-accuracy",)),
    # squared error: the mean over an example's numbers
    "mse": Loss(_mse, targets=("numbers",), metrics=("mae",)),
}
