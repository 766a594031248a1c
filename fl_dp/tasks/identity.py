"""Whether two sites mean the same task: a digest of the code that decides what is computed.

Of the file that holds the task, of the one that holds the model where its name is code of the user's own, and
of the files beside them that they import; not of where the data lie, which is each site's own: `train_data`
and `test_data` are left out. Ends of lines, and spaces before them, do not count.
Of a class without a file, as in a notebook, its own methods count.
What is built in has no digest: its parts are compared by their names, and by `records.NUMERICS`. But what a
table's schema makes of records counts in either case: the same weights would mean other columns.
"""

import ast
import hashlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from fl_dp.config.task import task_file
from fl_dp.errors import TaskError
from fl_dp.models.names import is_own_code
from fl_dp.tasks.load import OwnModelTask, in_task_code
from fl_dp.tasks.own_code import imported
from fl_dp.tasks.task import Task

_OF_THE_SITE = frozenset({"train_data", "test_data"})
_MOST_FILES = 200


def identity(task: Task) -> str:
    """The digest, in hex, of the task's code, of its model's, and of what a schema makes of the records.

    Empty where both are built in and no schema is read.
    """
    with in_task_code(type(task), "meaning()"):
        meaning = task.meaning()
    parts: list[tuple[str, dict[str, str]]] = []
    if not task.built_in and type(task) is not OwnModelTask:
        file = _file_of(type(task))
        parts.append((type(task).__name__, _sources(file) if file else _parts(type(task))))
    if is_own_code(task.settings.model) and type(task).model is Task.model:
        module = imported("model", task.settings.model)
        parts.append((task_file(task.settings.model)[1], _sources(Path(inspect.getfile(module)))))
    if meaning:
        parts.append(("meaning", {"": meaning}))
    digest = hashlib.sha256()
    for kind, texts in parts:
        digest.update(kind.encode())
        for name, text in sorted(texts.items()):
            digest.update(f"\n{name}\n{text}".encode())
    return digest.hexdigest()[:16] if parts else ""


def _file_of(kind: type[Task]) -> Path | None:
    """The file that holds the class; None for one of a notebook or a console."""
    try:
        file = Path(inspect.getfile(kind))
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8-sig")))
    except (TypeError, OSError, SyntaxError, UnicodeDecodeError):
        return None
    # a console's classes claim the file of the program that runs it
    return file if any(isinstance(one, ast.ClassDef) and one.name == kind.__name__ for one in nodes) else None


def _parts(kind: type[Task]) -> dict[str, str]:
    """What counts of a class without a file: its own methods' sources, and its settings, by name."""
    own = {name: _unwrapped(part) for name, part in vars(kind).items() if name not in _OF_THE_SITE}
    return {
        name: _source(part) if inspect.isfunction(part) else repr(part)
        for name, part in own.items()
        if inspect.isfunction(part) or not name.startswith("__")
    }


def _unwrapped(part: Any) -> Any:
    """The function in a static method, a class method or a property."""
    return getattr(part, "__func__", None) or getattr(part, "fget", None) or part


def _source(function: FunctionType) -> str:
    """Its text, or its code where nobody has kept the text."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return _code(function.__code__)


def _code(code: CodeType) -> str:
    """What it does, without where it stands."""
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants))


def _sources(first: Path) -> dict[str, str]:
    """What counts of the file and of all that it imports from its own folder, by path from there."""
    found: dict[str, str] = {}
    waiting = [first]
    while waiting:
        file = waiting.pop()
        name = "task" if file == first else file.relative_to(first.parent).as_posix()
        if name in found:
            continue
        if len(found) == _MOST_FILES:
            raise TaskError(f"{first}: imports more than {_MOST_FILES} files of its own folder.")
        text = file.read_text(encoding="utf-8-sig")
        tree = ast.parse(text)
        found[name] = _what_counts(text, tree)
        waiting += _local_imports(tree, file.parent, first.parent)
    return found


def _what_counts(text: str, tree: ast.Module) -> str:
    left_out = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name in _OF_THE_SITE
        for line in range(_first_line(method), (method.end_lineno or method.lineno) + 1)
    }
    lines = [line.rstrip() for number, line in enumerate(text.splitlines(), 1) if number not in left_out]
    return "\n".join(line for line in lines if line)


def _first_line(method: ast.FunctionDef) -> int:
    return min([method.lineno, *(one.lineno for one in method.decorator_list)])


def _local_imports(tree: ast.Module, folder: Path, top: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [(top, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = top if node.level == 0 else folder.joinpath(*[".."] * (node.level - 1)).resolve()
            base = f"{node.module}." if node.module else ""
            wanted = [(start, base.rstrip("."))] if base else []
            wanted += [(start, f"{base}{alias.name}") for alias in node.names]
        else:
            continue
        for start, name in wanted:
            path = start.joinpath(*name.split("."))
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file() and file.resolve().is_relative_to(top.resolve()):
                    yield file
