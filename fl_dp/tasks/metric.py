"""What a metric has to say of itself, and the metrics of a task."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fl_dp.choices import METRICS
from fl_dp.errors import ConfigError
from fl_dp.form import Form, Targets
from fl_dp.tasks.task import Task
from fl_dp.training.loss import loss_of


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that users can choose: what a file in metrics/ says of it, as the constant `METRIC`.

    make: the data's form to a metric of torchmetrics, or one that is used in the same way. It is given what
    `prepare` makes of outputs and targets, a batch at a time. Its result is one number, or one for each
    class. targets: kinds that it is for.
    """

    make: Callable[[Form], Any]
    targets: tuple[Targets, ...]
    prepare: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda outputs, targets: (outputs, targets)


@dataclass
class Metrics:
    """Some metrics over the batches of one data set."""

    _made: Mapping[str, tuple[Metric, Any]]
    _own: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    _seen: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in a batch: what the model says, and what is so."""
        for metric, state in self._made.values():
            state.update(*metric.prepare(outputs, targets))
        if self._own:
            self._seen.append((outputs.cpu(), targets.cpu()))

    def values(self, labels: Sequence[str] = ()) -> dict[str, float | None]:
        """By name; None where one is not defined, as with one class alone.

        Of each class NAME[LABEL], or NAME[0] and so on without `labels`.
        """
        found: dict[str, float | None] = {}
        for name, (_, state) in self._made.items():
            found |= _named(name, state.compute(), labels)
        if self._own:
            outputs, targets = (torch.cat(parts) for parts in zip(*self._seen, strict=True))
            for name, compute in self._own.items():
                found |= _named(name, torch.as_tensor(compute(outputs, targets)), labels)
        return found


def first_choices(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The class with the largest logit, of each example or place (n,), and what is so (n,)."""
    return outputs.argmax(-1).flatten(), targets.flatten()


def metrics_of(task: Task, device: torch.device, wanted: Sequence[Any] = ()) -> Metrics:
    """The metrics of the task, for data of its form; ConfigError for one that does not suit it.

    wanted: names, or functions, in the place of the task's.
    """
    wanted = wanted or task.metrics or loss_of(task.settings.loss).metrics
    made = {one: _made(one, task.form, device) for one in wanted if isinstance(one, str)}
    own = {one.__name__: one for one in wanted if not isinstance(one, str)}
    return Metrics(made, own)


def _made(name: str, form: Form, device: torch.device) -> tuple[Metric, Any]:
    metric = METRICS.load(name, Metric)
    if form.targets not in metric.targets:
        raise ConfigError(
            f"metric {name!r} is for targets of {' or '.join(metric.targets)}, not {form.targets}."
        )
    return metric, metric.make(form).to(device)


def _named(name: str, result: Tensor, labels: Sequence[str]) -> dict[str, float | None]:
    if result.ndim == 0:
        return {name: _number(result)}
    names = labels if len(labels) == len(result) else [str(i) for i in range(len(result))]
    return {f"{name}[{label}]": _number(one) for label, one in zip(names, result, strict=True)}


def _number(value: Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
