"""The descriptor of a metric, and the metrics of a task."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fl_dp.choices import METRICS
from fl_dp.config.data import PERSON
from fl_dp.data.tensor_data import NO_TOKEN, TensorData
from fl_dp.errors import ConfigError
from fl_dp.form import Form, Targets
from fl_dp.tasks.parts import CLASS, SUBGROUP, Each, Parts, Score, Within
from fl_dp.tasks.task import Task
from fl_dp.training.losses import loss_of

_OF_TWO_CLASSES = ("recall", "auroc", "selection-rate")  # reported of subgroups, beside the loss's metrics


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that users can choose: a row of a table in metrics/, or the constant `METRIC` of a file.

    make: takes the data's form and returns an object with two methods. `update` gets one batch at a time, as
    `prepare` returns it for outputs and targets. `compute` returns one number, or one for each class.
    targets: the kinds of targets that it is for.
    each: for a mean over examples: maps outputs and targets to the (n,) values that are averaged. part: CLASS
    or SUBGROUP: the mean of `each` is reported for each of them; `make` is then None. within: for a SUBGROUP
    of examples of two classes: the value from those of `each` and the classes. smaller_is_better: an error.
    """

    make: Callable[[Form], Any] | None
    targets: tuple[Targets, ...]
    prepare: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda outputs, targets: (outputs, targets)
    each: Each | None = None
    part: str = ""
    within: Within | None = None
    smaller_is_better: bool = False


class OverAll:
    """Collects a model's answers and the targets, and computes a metric of all of them.

    of: maps targets and answers (n, ...) to a number; NaN where it is undefined.
    """

    def __init__(self, of: Callable[[np.ndarray, np.ndarray], float]) -> None:
        self._of = of
        self._seen: list[tuple[Tensor, Tensor]] = []

    def update(self, answers: Tensor, targets: Tensor) -> None:
        self._seen.append((answers.cpu(), targets.cpu()))

    def compute(self) -> Tensor:
        """(): NaN also for answers that are not finite, and for none."""
        answers, targets = (torch.cat(parts).numpy() for parts in zip(*self._seen, strict=True))
        defined = len(targets) > 0 and np.isfinite(answers).all()
        return torch.tensor(self._of(targets, answers) if defined else math.nan, dtype=torch.float64)


@dataclass
class Metrics:
    """The metrics of one model on one data set: give it every batch, then ask for the values."""

    _made: Mapping[str, tuple[Metric, Any]]
    _own: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    _parts: Parts
    _seen: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Add a batch of model outputs and targets. Batches come in the order of the data."""
        self._parts.update(outputs, targets)
        for metric, state in self._made.values():
            if not metric.part:
                state.update(*metric.prepare(outputs, targets))
        if self._own:
            self._seen.append((outputs.cpu(), targets.cpu()))

    def values(self, labels: Sequence[str] = ()) -> dict[str, float | None]:
        """By name; None if undefined, as with a single class, or if it would reveal few examples.

        For each class NAME[LABEL], or NAME[0] and so on without `labels`; for each subgroup
        NAME[COLUMN = LABEL].
        """
        found: dict[str, float | None] = {}
        parts, hides_a_class = self._parts.told(labels)
        for name, (metric, state) in self._made.items():
            if metric.part:
                found |= parts.get(name, {})
            elif hides_a_class and metric.each is None:
                found[name] = None  # a mean over classes, with other weights, reveals the hidden classes
            else:
                found |= _named(name, state.compute(), labels)
        if self._own:
            outputs, targets = (torch.cat(parts) for parts in zip(*self._seen, strict=True))
            for name, compute in self._own.items():
                found |= _named(name, torch.as_tensor(compute(outputs, targets)), labels)
        return found


def first_choices(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The class with the largest logit for each example or position that counts (n,), and the target (n,)."""
    counts = targets != NO_TOKEN
    return outputs.argmax(-1)[counts], targets[counts]


def right(outputs: Tensor, targets: Tensor) -> Tensor:
    """(n,) 1 for each example whose class has the largest logit, else 0."""
    return (outputs.argmax(-1) == targets).double()


def metrics_of(task: Task, wanted: Sequence[Any] = (), data: TensorData | None = None) -> Metrics:
    """The metrics of the task, for data of its form; ConfigError for one that does not suit the form.

    wanted: names or functions that replace the task's. data: the test data; without them, or without
    subgroups in them, nothing is reported for subgroups.
    """
    subgroups = data.subgroups if data else ()
    wanted = wanted or task.metrics or _usual(task, bool(subgroups))
    made = {one: _made(one, task.form) for one in wanted if isinstance(one, str)}
    own = {one.__name__: one for one in wanted if not isinstance(one, str)}
    return Metrics(made, own, _parts(task, {name: metric for name, (metric, _) in made.items()}, data))


def check_metrics(task: Task, wanted: Sequence[Any], data: TensorData | None) -> None:
    """Raise ConfigError if a metric does not suit the task, or needs subgroups that the data lack."""
    for name, (metric, _) in metrics_of(task, wanted)._made.items():
        if metric.part == SUBGROUP and data is not None and not data.subgroups:
            raise ConfigError(
                f"metric {name!r}: the test data declare no subgroups. A table declares them in its schema "
                "(subgroups = [...] or bands = [...] of a column), an npz file by arrays subgroup_NAME, a "
                "folder of images in subgroups.toml."
            )


def _usual(task: Task, subgroups: bool) -> tuple[str, ...]:
    """The metrics of the loss, and perplexity of tokens; for data with subgroups also those of each."""
    usual = loss_of(task.settings.loss).metrics
    usual += ("perplexity",) if task.form.targets == "tokens" and usual else ()
    wanted = (f"{name}-per-{SUBGROUP}" for name in (*usual, *_OF_TWO_CLASSES)) if subgroups else ()
    known = METRICS.built_in()
    fit = (name for name in wanted if name in known and not _unfit(METRICS.load(name, Metric), task.form))
    return (*usual, *fit)


def _parts(task: Task, metrics: Mapping[str, Metric], data: TensorData | None) -> Parts:
    """What is reported for classes and subgroups.

    Classes are counted as well as subgroups if a requested metric weights them in its own way.
    """
    scores = {
        name: Score(one.part, one.each, one.within) for name, one in metrics.items() if one.part and one.each
    }
    by_subgroup = any(score.part == SUBGROUP for score in scores.values())
    weighs = any(one.part == CLASS or one.each is None for one in metrics.values())
    of_classes = task.form.targets == "class"
    persons = data is not None and task.settings.unit_name == PERSON
    return Parts(
        scores,
        max(2, task.form.outputs) if of_classes else 0,
        of_classes and bool(scores) and weighs,
        data.subgroups if data and by_subgroup else (),
        data.groups if data and persons else (),
    )


def _unfit(metric: Metric, form: Form) -> str:
    """Why the metric is not for data of this form; empty if it is."""
    if form.targets not in metric.targets:
        return f"is for targets of {' or '.join(metric.targets)}, not {form.targets}"
    if metric.within and form.outputs != 2:
        return f"is for two classes, not {form.outputs}; accuracy-per-class is each class's recall"
    return ""


def _made(name: str, form: Form) -> tuple[Metric, Any]:
    metric = METRICS.load(name, Metric)
    if reason := _unfit(metric, form):
        raise ConfigError(f"metric {name!r} {reason}.")
    return metric, metric.make(form) if metric.make else None


def _named(name: str, result: Tensor, labels: Sequence[str]) -> dict[str, float | None]:
    if result.ndim == 0:
        return {name: _number(result)}
    names = labels if len(labels) == len(result) else [str(i) for i in range(len(result))]
    return {f"{name}[{label}]": _number(one) for label, one in zip(names, result, strict=True)}


def _number(value: Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
