"""Whether two sites mean the same task: a digest of the code that decides what is computed.

Of the file that the settings name, of that which holds the task's class, and of the files of their folder, or
of their package, that these import; not of where the data lie, which is each site's own: what is within
`train_data` and `test_data` of the task's own classes is left out. Ends of lines, and spaces before them, do
not count.
What is built in has no digest: its parts are compared by their names, and by `records.NUMERICS`.

It tells honest sites that they differ by mistake. Code that looks for other code while it runs (importlib,
exec), or reads files, is not followed.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from fl_dp.errors import TaskError
from fl_dp.tasks.task import Task

_OF_THE_SITE = frozenset({"train_data", "test_data"})
_MOST_FILES = 200


def identity(task: Task) -> str:
    """The task's digest in hex; empty for one that is built in."""
    if task.built_in:
        return ""
    kind = type(task)
    digest = hashlib.sha256(kind.__name__.encode())
    for name, text in sorted(_sources(kind, _named_file(task)).items()):
        digest.update(f"\n{name}\n{text}".encode())
    return digest.hexdigest()[:16]


def _named_file(task: Task) -> Path | None:
    """The file that the settings name; None where they name a module."""
    path, colon, _ = task.settings.task.rpartition(":")
    named = path if colon and path.endswith(".py") else task.settings.task
    return _plain(Path(named).expanduser()) if named.endswith(".py") else None


def _sources(kind: type[Task], named: Path | None) -> dict[str, str]:
    """What counts of the files of the task and of all that they import from their own, by path from there."""
    first = _plain(Path(_file_of(kind.__module__)))
    package = 0 if kind.__module__.startswith("fl_dp_task_") else kind.__module__.count(".")
    top = first.parents[package]  # the folder that holds its package
    own = {one.__name__ for one in kind.__mro__}
    found: dict[str, str] = {}
    waiting = [first, *([named] if named else [])]
    while waiting:
        file = waiting.pop()
        name = "task" if file == (named or first) else os.path.relpath(file, first.parent)
        if name in found:
            continue
        if len(found) == _MOST_FILES:
            raise TaskError(f"{first}: imports more than {_MOST_FILES} files of its own folder.")
        text = file.read_text(encoding="utf-8-sig")
        tree = ast.parse(text)
        found[name] = _what_counts(text, tree, own)
        waiting += _local_imports(tree, file.parent, first.parent, top)
    return found


def _file_of(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise TaskError(f"the task's module {module} has no file, of which others could be told a digest.")
    return str(file)


def _plain(path: Path) -> Path:
    """Absolute and without "..", links not followed: a link in the folder is a file of the folder."""
    return Path(os.path.abspath(path))


def _what_counts(text: str, tree: ast.Module, own: Collection[str]) -> str:
    """own: names of the task's classes. What is said before a method's body counts: it runs on import."""
    left_out = {
        line
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in own
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name in _OF_THE_SITE
        for line in range(_end_of_head(method) + 1, (method.end_lineno or method.lineno) + 1)
    }
    # Not splitlines(), which ends lines at characters at which Python does not.
    lines = [line.rstrip() for number, line in enumerate(text.split("\n"), 1) if number not in left_out]
    return "\n".join(line for line in lines if line)


def _end_of_head(method: ast.FunctionDef) -> int:
    """The last line before its body, or its first one where the body begins there."""
    arguments = [one.end_lineno or 0 for one in ast.walk(method.args) if isinstance(one, ast.expr | ast.arg)]
    returns = (method.returns.end_lineno or 0) if method.returns else 0
    return max([method.lineno, *arguments, returns])


def _local_imports(tree: ast.Module, folder: Path, beside: Path, top: Path) -> Iterator[Path]:
    """beside: the folder of the task's file. top: that of its package, or the same."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
            starts = [beside, top]
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            wanted = [base.rstrip("."), *(f"{base}{alias.name}" for alias in node.names)]
            starts = [folder.joinpath(*[".."] * (node.level - 1))] if node.level else [beside, top]
        else:
            continue
        for start in dict.fromkeys(map(_plain, starts)):
            for name in wanted:
                yield from _files(start, name.split(".") if name else [], top)


def _files(start: Path, parts: list[str], top: Path) -> Iterator[Path]:
    """The files below `top` that are run when the module is imported: its own and those of its packages."""
    star = parts[-1:] == ["*"]
    parts = parts[:-1] if star else parts
    for count in range(len(parts) + 1):
        path = start.joinpath(*parts[:count])
        found = [path / "__init__.py", *([path.with_name(f"{path.name}.py")] if count else [])]
        if star and count == len(parts) and found[0].is_file():
            found += sorted(path.glob("*.py"))  # what its __all__ may name
        inside = (file for file in found if file.is_relative_to(top) and file.is_file())
        # the folder of a task that is no package holds no package of its own
        yield from (file for file in inside if count or file.parent != top)
