"""The tensors of a step from the drawn indices, and what the engine checks beforehand."""

import secrets
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from fl_dp.data.persons import Examples
from fl_dp.engine.backward import Axes
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.probe import probe
from fl_dp.engine.tracing.draws import Watch, kept_random_state
from fl_dp.engine.tracing.mixing import MixingWatch
from fl_dp.engine.tracing.structure import map_tensors
from fl_dp.training.augmentation import Views, Words
from fl_dp.training.objective import Batch, Objective

_SYNTHETIC = 8  # examples whose losses are searched for mixing


def examples_of(data: Examples, indices: Tensor, randomness: Randomness, views: Views) -> Batch:
    """The examples that `indices` name. randomness: of the step, for views.

    Which views are taken follows from the step and the example's number, whatever else is drawn.
    """
    batch = data.batch(indices)
    return _seen(batch, indices, _words(randomness.child("views")), views) if views else batch


def _words(randomness: Randomness) -> Words:
    return lambda example, count: randomness.child(example).stream().words(count, np.dtype(np.uint64).type)


def _seen(batch: Batch, indices: Tensor, words: Words, views: Views) -> Batch:
    """The batch with `views.number` views of each row, which share the row's weight equally."""
    inputs, targets, *shares = batch
    if not shares and views.number == 1:
        return views.of(inputs[:, None], indices, words)[:, 0], targets
    if not shares:
        inputs, targets, shares = inputs[:, None], targets[:, None], [torch.ones(len(inputs), 1)]
    number = views.number
    return (
        views.of(inputs, indices, words),
        targets.repeat_interleave(number, dim=1),
        (shares[0] / number).repeat_interleave(number, dim=1),
    )


def axes_of(model: nn.Module, objective: Objective, device: torch.device) -> Axes:
    """What the engine knows of the model, which is on `device`; ModelError if it cannot be protected.

    Probed with inputs of the objective's shape and type; the number of examples does not matter. As in the
    objective, a model sees n * r rows where examples have r rows each.
    """
    inputs, rows = objective.blank(1)[0][:0].to(device), objective.rows
    if not rows:
        return probe(model, inputs)

    def by_example(_: nn.Module, args: tuple[Tensor, ...], outputs: object) -> object:
        count = len(args[0])
        return map_tensors(
            lambda one: one.reshape(-1, rows, *one.shape[1:]) if one.dim() and len(one) == count else one,
            outputs,
        )

    flat = model.register_forward_pre_hook(lambda _, args: (args[0].flatten(0, 1),), prepend=True)
    back = model.register_forward_hook(by_example)
    try:
        return probe(model, inputs)
    finally:
        flat.remove()
        back.remove()


def check_own_losses(losses_of: Callable[..., Tensor], objective: Objective) -> None:
    """ProbeError if losses of random examples depend on other examples, or draw random numbers elsewhere than
    from torch's global generator. For use before a payment.
    """
    with kept_random_state():
        batch = objective.blank(_SYNTHETIC)
        with Watch(secrets.randbits(32)):  # a secret seed, as when the model is watched
            losses_of(*batch)
    MixingWatch(losses_of, every=1).look(*batch)
