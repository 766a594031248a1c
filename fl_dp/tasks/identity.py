"""Whether two sites mean the same task: a digest of the code that decides what is computed.

It covers the file that the settings name, the file with the task's class, the file with the model if that is
the user's own code, and what these import from their own folder (`sources.py`). For a class without a file,
as in a notebook, it covers the class's own methods. Built-in code has no digest: sites compare its parts by
name and by `records.NUMERICS`. A table's schema and fixed features always count: with others, the same
weights would mean other inputs.

The digest shows honest sites that they differ by mistake.
"""

import ast
import hashlib
import inspect
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from fl_dp.config.task import task_file
from fl_dp.data.fixed_features import features_of
from fl_dp.models.names import is_own_code
from fl_dp.tasks.load import OwnModelTask, in_task_code
from fl_dp.tasks.own_code import imported, package_depth
from fl_dp.tasks.sources import OF_THE_SITE, plain, sources
from fl_dp.tasks.task import Task
from fl_dp.training.losses import loss_of

_OURS = frozenset({"fl_dp", "torch", "torchvision"})  # packages


def identity(task: Task) -> str:
    """The digest, in hex, of the task's code, its model's code, and a schema's meaning and features.

    Empty if both are built in, no schema is read and no features are computed. TaskError for the user's own
    code that cannot be read.
    """
    with in_task_code(type(task), "its identity"):
        meaning = task.meaning()
        parts = _of_code(task) + ([("meaning", {"": meaning})] if meaning else [])
    features = features_of(task.settings.features)
    return _digest(parts + ([("features", {"": features.name})] if features else []))


def code_identity(task: Task) -> str:
    """The digest of only the task's and its model's code; empty if both are built in."""
    with in_task_code(type(task), "its identity"):
        return _digest(_of_code(task))


Parts = list[tuple[str, dict[str, str]]]


def _digest(parts: Parts) -> str:
    digest = hashlib.sha256()
    for kind, texts in parts:
        digest.update(kind.encode())
        for name, text in sorted(texts.items()):
            digest.update(f"\n{name}\n{text}".encode())
    return digest.hexdigest()[:16] if parts else ""


def _of_code(task: Task) -> Parts:
    return _of_task(task) + _of_model(task)


def is_our_code(task: Task, model: nn.Module) -> bool:
    """Whether all code of the model's passes, losses included, is fl_dp's own or PyTorch's."""
    kinds = [loss_of(task.settings.loss).per_example, *(type(one) for one in model.modules())]
    return type(task) is Task and {one.__module__.partition(".")[0] for one in kinds} <= _OURS


def _of_task(task: Task) -> Parts:
    kind = type(task)
    if task.built_in or kind is OwnModelTask:
        return []
    file = _file_of(kind)
    if file is None:
        return [(kind.__name__, _parts(kind))]
    named, _ = task_file(task.settings.task)
    files = [file] if named is None else [file, plain(named.expanduser())]
    own = {one.__name__ for one in kind.__mro__}
    return [(kind.__name__, sources(files, file.parents[package_depth(kind.__module__)], own))]


def _of_model(task: Task) -> Parts:
    model = task.settings.model
    if not is_own_code(model) or type(task).model is not Task.model:
        return []
    module = imported("model", model)
    file = plain(Path(inspect.getfile(module)))
    return [(task_file(model)[1], sources([file], file.parents[package_depth(module.__name__)], ()))]


def _file_of(kind: type[Task]) -> Path | None:
    """The file with the class; None for a class of a notebook or a console."""
    try:
        file = plain(Path(inspect.getfile(kind)))
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8-sig")))
    except (TypeError, OSError, SyntaxError, UnicodeDecodeError):
        return None
    # classes of a console claim the running program's file
    return file if any(isinstance(one, ast.ClassDef) and one.name == kind.__name__ for one in nodes) else None


def _parts(kind: type[Task]) -> dict[str, str]:
    """The parts of a class without a file that count: its methods' sources and its attributes, by name."""
    own = {name: _unwrapped(part) for name, part in vars(kind).items() if name not in OF_THE_SITE}
    return {
        name: _source(part) if inspect.isfunction(part) else repr(part)
        for name, part in own.items()
        if inspect.isfunction(part) or not name.startswith("__")
    }


def _unwrapped(part: Any) -> Any:
    """The function in a static method, a class method or a property."""
    return getattr(part, "__func__", None) or getattr(part, "fget", None) or part


def _source(function: FunctionType) -> str:
    """The function's text, or its bytecode if the text is not available."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return _code(function.__code__)


def _code(code: CodeType) -> str:
    """The bytecode, without file and line numbers."""
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants))
