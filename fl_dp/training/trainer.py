"""One client's training: the trainer that a plan asks for, its steps, and what they leave in the model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fl_dp.data.persons import Examples
from fl_dp.engine.backward import Axes
from fl_dp.engine.kernel_choice.chooser import KernelChooser
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.records import RoundPlan
from fl_dp.training.objective import Objective
from fl_dp.training.private import PrivateTrainer
from fl_dp.training.recorder import Recorder
from fl_dp.training.unprotected import UnprotectedTrainer

Trainer = PrivateTrainer | UnprotectedTrainer


def trainer_of(
    model: nn.Module,
    plan: RoundPlan,
    objective: Objective,
    device: torch.device,
    axes: Axes | None,
    *,
    chooser: KernelChooser | None = None,
    randomness: Randomness | None = None,
    recorder: Recorder | None = None,
    more_devices: Sequence[torch.device] = (),
) -> Trainer:
    """The trainer that `plan` asks for; `model` is on `device`.

    axes, more_devices: not used without privacy.
    """
    if not plan.private:
        return UnprotectedTrainer(model.train(), plan, objective, device=device, randomness=randomness)
    assert axes is not None
    return PrivateTrainer(
        model.train(),
        axes,
        plan,
        objective,
        device=device,
        chooser=chooser,
        randomness=randomness,
        recorder=recorder,
        more_devices=more_devices,
    )


def take_steps(trainer: Trainer, data: Examples, steps: int, sample_rate: float, at_once: int) -> None:
    """Take the steps that were paid for. at_once: the most examples in memory at a time."""
    for _ in range(steps):
        trainer.step(data, sample_rate, at_once)


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The trainable parameters by name, without buffers. They share the model's memory."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def update_of(trainer: Trainer) -> dict[str, Tensor] | None:
    """What leaves the client after the steps, by name; None if any trained number is not finite.

    Parameters share the model's memory. For a secure sum it is the client's share of the sum, in integers.
    """
    if isinstance(trainer, PrivateTrainer) and trainer.plan.secure:
        return dict(trainer.share)
    update = trainer.algorithm.update()
    return update if is_finite({**trainer.algorithm.parameters, **update}.values()) else None


def is_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all numbers are finite. The sum is tried first: it is seldom infinite if they are finite."""
    return all(bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all()) for tensor in tensors)


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Copies of the tensors as arrays."""
    return {name: np.array(tensor.cpu().numpy()) for name, tensor in tensors.items()}
