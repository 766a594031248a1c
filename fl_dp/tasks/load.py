"""Loads the task that settings name: `my_task.py`, `my_task.py:Name`, `package.module:Name`, or built in."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fl_dp.config.task import TaskSettings, task_beside, task_file
from fl_dp.errors import ConfigError, TaskError, TaskNameError
from fl_dp.models.lora import with_lora
from fl_dp.models.names import is_own_code
from fl_dp.models.patterns import choose_trainable
from fl_dp.tasks.own_code import imported
from fl_dp.tasks.task import Task

GIVEN = "given:"  # prefix for a class that was handed to this process
_given: dict[str, type[Task]] = {}


def give(kind: type[Task]) -> str:
    """A name, valid in this process, by which `task_of` finds a class without a file.

    The latest class of that name counts, and its data are read anew: in a notebook both change.
    """
    if not (isinstance(kind, type) and issubclass(kind, Task)):
        raise ConfigError(f"task = {kind!r:.60}: expected a class that is a fl_dp.Task, or its file's name.")
    name = f"{GIVEN}{kind.__name__}"
    _given[name] = kind
    new_tasks()
    return name


def new_tasks() -> None:
    """Forget all tasks, so that they are created anew; `records.forget` also reads data anew."""
    _task.cache_clear()


def task_of(settings: TaskSettings) -> Task:
    """The task that the settings name; in one process, equal settings share a task.

    TaskNameError for a name that does not exist, or for a file with no task or several; TaskError for a file
    that cannot be imported. Neither text leaves a client.
    """
    return _task(**settings.of_task())


class OwnModelTask(Task):
    """All is built in except the model, which is the user's own code."""


@lru_cache(maxsize=8)  # keyed by plain values: making settings takes longer than all else here
def _task(**of_task: Any) -> Task:
    settings = TaskSettings(**of_task)
    if settings.task:
        kind = task_class(settings.task)
    else:
        kind = OwnModelTask if is_own_code(settings.model) else Task
    with in_task_code(kind, "it"):
        return kind(settings)


def absolute_task(name: str) -> str:
    """`name`, with an absolute path if it names a file: the same from any folder."""
    return task_beside(name, Path.cwd())


def task_class(name: str) -> type[Task]:
    """The class named `name`; raises as `task_of`."""
    if name.startswith(GIVEN):
        if name not in _given:
            raise ConfigError(f"task = {name!r}: a class of another Python process; pass it again.")
        return _given[name]
    file, kind = task_file(name)
    if file is None and not kind:
        raise TaskNameError(f"task = {name!r}: expected FILE.py, FILE.py:NAME or package.module:NAME.")
    module = imported("task", name)
    if kind:
        found = getattr(module, kind, None)
        if not (isinstance(found, type) and issubclass(found, Task)):
            raise TaskNameError(f"task = {name!r}: it has no class {kind} that is a fl_dp.Task.")
        return found
    own = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Task) and one.__module__ == module.__name__
    ]
    if len(own) != 1:
        there = ", ".join(one.__name__ for one in own) or "none"
        raise TaskNameError(
            f"task = {name!r}: expected one class that is a fl_dp.Task, found {there}; name one."
        )
    return own[0]


def reads_own_data(name: str) -> bool:
    """Whether the task of that name reads its own records, whatever `data` says."""
    return task_class(name).train_data is not Task.train_data


def new_model(task: Task) -> nn.Module:
    """The task's model in training mode, with weights from the site's seed; global random state is unchanged.

    Trainable are the parameters that the settings choose, and LoRA's adapters. ConfigError if there are none,
    TaskError for what the user's own code raises; also raises as `build_model`.
    """
    settings = task.settings
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)  # not torch.manual_seed: that also reseeds GPUs
        with in_task_code(type(task), "model()"):
            model = task.model()
            if not isinstance(model, nn.Module):
                raise TypeError(f"it returned {type(model).__name__}, expected a torch.nn.Module")
        model = with_lora(model, *settings.adapters)
    choose_trainable(model, settings.trainable, adapters=bool(settings.lora))
    return model.train()


@contextmanager
def in_task_code(kind: type[Task], what: str) -> Iterator[None]:
    """Within the block, errors of the user's own code become a TaskError: their text may quote data."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if kind.built_in:
            raise
        raise TaskError(f"task {kind.__name__}: {what} raised {type(error).__name__}: {error}") from error
