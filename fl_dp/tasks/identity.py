"""Whether two sites mean the same task: a digest of the code that decides what is computed.

Of the file that holds the task, of the one that holds the model where its name is code of the user's own, and
of the files beside them that they import; not of where the data lie, which is each site's own: `train_data`
and `test_data` are left out. Ends of lines, and spaces before them, do not count.
What is built in has no digest: its parts are compared by their names, and by `records.NUMERICS`. But what a
table's schema makes of records counts in any case: the same weights would mean other columns.
"""

import ast
import hashlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from fl_dp.errors import TaskError
from fl_dp.models.names import file_and_name, is_own_code
from fl_dp.tasks.load import OwnModelTask, in_task_code
from fl_dp.tasks.own_code import imported
from fl_dp.tasks.task import Task

_OF_THE_SITE = frozenset({"train_data", "test_data"})
_MOST_FILES = 200


def identity(task: Task) -> str:
    """The digest, in hex, of the task's code, of its model's, and of what a schema makes of records.

    Empty where all is built in and no schema is read.
    """
    with in_task_code(type(task), "meaning()"):
        meaning = task.meaning()
    parts = (
        []
        if task.built_in or type(task) is OwnModelTask
        else [(type(task).__name__, inspect.getfile(type(task)))]
    )
    if is_own_code(task.settings.model) and type(task).model is Task.model:
        module = imported("model", task.settings.model)
        parts.append((file_and_name(task.settings.model)[1], inspect.getfile(module)))
    digest = hashlib.sha256()
    for kind, file in parts:
        digest.update(kind.encode())
        for name, text in sorted(_sources(Path(file)).items()):
            digest.update(f"\n{name}\n{text}".encode())
    if meaning:
        digest.update(f"\nmeaning\n{meaning}".encode())
    return digest.hexdigest()[:16] if parts or meaning else ""


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
