"""From what is drawn to what a step computes on, and what the engine has to know of that beforehand."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from fl_dp.data.persons import Examples, PersonData
from fl_dp.engine.backward import Axes
from fl_dp.engine.noise.randomness import Randomness
from fl_dp.engine.probe import probe
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import UseKey
from fl_dp.engine.tracing.structure import map_tensors
from fl_dp.training.objective import Batch

_MODEL = "model"  # attribute of `_OfPersons`, and so the head of its parameters' names


def examples_of(data: Examples, indices: Tensor, randomness: Randomness) -> Batch:
    """The examples that `indices` name. randomness: of the step, for persons of whom not all records count.

    Which of them count follows from the step and the person's number, whatever else is drawn.
    """
    if not isinstance(data, PersonData):
        return data.batch(indices)
    return data.batch(
        indices,
        lambda person, count: randomness.child(person).stream().words(count, np.dtype(np.uint64).type),
    )


def axes_of(model: nn.Module, data: Examples, device: torch.device) -> Axes:
    """What the engine knows of the model, which is on `device`; ModelError if it cannot be protected."""
    inputs = data.batch(torch.zeros(0, dtype=torch.int64))[0].to(device)
    return axes_for(model, inputs, persons=isinstance(data, PersonData))


def axes_for(model: nn.Module, inputs: Tensor, *, persons: bool) -> Axes:
    """The same, for inputs of that shape and type; of how many examples does not matter."""
    return _without_head(probe(_OfPersons(model), inputs)) if persons else probe(model, inputs)


class _OfPersons(nn.Module):
    """The model, of inputs (n, r, ...): as in the objective, it sees n * r records."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        setattr(self, _MODEL, model)

    def forward(self, inputs: Tensor) -> object:
        lead = inputs.shape[:2]
        records = lead.numel()
        return map_tensors(
            lambda output: (
                output.view(*lead, *output.shape[1:]) if output.dim() and len(output) == records else output
            ),
            getattr(self, _MODEL)(inputs.flatten(0, 1)),
        )


def _without_head(axes: Axes) -> Axes:
    """With the parameters' names as the model itself has them."""

    def own(key: UseKey) -> UseKey:
        return replace(key, parameters=tuple(name.removeprefix(f"{_MODEL}.") for name in key.parameters))

    batch: dict[UseKey, BatchAxis] = {own(key): axis for key, axis in axes.batch.items()}
    return replace(
        axes,
        batch=batch,
        shared=frozenset(frozenset(map(own, keys)) for keys in axes.shared),
        fallback=frozenset(map(own, axes.fallback)),
    )
