"""From a site's settings to its task: `my_task.py`, `my_task.py:Name`, `package.module:Name`, or built in.

The name is the site's own, from its own disk: what a server names is compared with it, and never looked for.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from fl_dp.config.task import TaskSettings
from fl_dp.errors import TaskError, TaskNameError
from fl_dp.tasks.task import Task

_FILE = ".py"


def task_of(settings: TaskSettings) -> Task:
    """The task that the settings name; one for all that mean the same, in a process.

    TaskNameError for a name that is not there, or of a file that holds no task, or several and none is named;
    TaskError for a file that cannot be imported. Neither text leaves a client.
    """
    return _task(TaskSettings(**settings.of_task()))


@lru_cache(maxsize=8)
def _task(settings: TaskSettings) -> Task:
    kind = task_class(settings.task) if settings.task else Task
    with in_task_code(kind, "it"):
        return kind(settings)


def absolute_task(name: str) -> str:
    """`name`, with an absolute path where it names a file: it then means the same from any folder."""
    file, kind = _file_and_class(name)
    return name if file is None else f"{file.expanduser().absolute()}{':' if kind else ''}{kind}"


def task_class(name: str) -> type[Task]:
    """The class that `name` means, see `task_of`."""
    file, kind = _file_and_class(name)
    if file is None and not kind:
        raise TaskNameError(f"task = {name!r}: expected FILE.py, FILE.py:NAME or package.module:NAME.")
    module = _import(name, file)
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


def new_model(task: Task) -> nn.Module:
    """The task's model in training mode, its weights from the site's seed; the random state stays as it was.

    TaskError for what code of the user's own raises, else as `build_model`.
    """
    with torch.random.fork_rng(devices=[]), in_task_code(type(task), "model()"):
        torch.default_generator.manual_seed(
            task.settings.seed
        )  # not torch.manual_seed: that reseeds GPUs, too
        model = task.model()
        if not isinstance(model, nn.Module):
            raise TypeError(f"it returned {type(model).__name__}, expected a torch.nn.Module")
    return model.train()


@contextmanager
def in_task_code(kind: type[Task], what: str) -> Iterator[None]:
    """Within it, what a user's own code raises becomes a TaskError: its words may quote data."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if kind.built_in:
            raise
        raise TaskError(f"task {kind.__name__}: {what} raised {type(error).__name__}: {error}") from error


def _file_and_class(name: str) -> tuple[Path | None, str]:
    """FILE.py or FILE.py:NAME; package.module:NAME has no file. A colon may be in the path, too."""
    before, _, after = name.rpartition(":")
    if name.endswith(_FILE):
        return Path(name), ""
    return (Path(before), after) if before.endswith(_FILE) else (None, after if before else "")


def _import(name: str, file: Path | None) -> ModuleType:
    try:
        if file is None:
            return importlib.import_module(name.rpartition(":")[0])
        path = file.expanduser().absolute()
        if path.is_file():
            return _from_file(path)
    except (Exception, SystemExit) as error:  # fl_dp's own errors, too: its code may have raised them
        raise TaskError(f"task = {name!r}: cannot be imported: {type(error).__name__}: {error}") from error
    raise TaskNameError(f"task = {str(path)!r}: no such file.")


def _from_file(file: Path) -> ModuleType:
    """The module in `file`, imported once in a process. Modules beside it can be imported by it."""
    name = f"fl_dp_task_{blake2b(str(file).encode(), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # at the end: nothing there takes the place of what is installed
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does: dataclasses and pickles look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
