"""The text that decides what a task computes: its files, and those of their folder that they import.

The bodies of `train_data` and `test_data` in the task's classes do not count: each site has its data
elsewhere. Line ends, and spaces before them, do not count either. Code that loads other code while it runs
(importlib, exec), or that reads files, is not followed.
"""

import ast
import importlib.util
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from fl_dp.errors import TaskError

OF_THE_SITE = frozenset({"train_data", "test_data"})
_MOST_FILES = 200
_OURS = Path(__file__).parents[1]  # fl_dp itself, which may be in a task's folder: it has NUMERICS


def sources(files: Sequence[Path], top: Path, own: Collection[str]) -> dict[str, str]:
    """The text that counts, by path: of `files`, and of all files below `top` that they import.

    files: the one with the class first, the one that the settings name last; they may be the same. top: the
    folder of the first file, or of its package. own: names of the task's classes.
    """
    found: dict[str, str] = {}
    first, waiting = files[0], list(files)
    while waiting:
        file = waiting.pop()
        name = "task" if file == files[-1] else os.path.relpath(file, first.parent)
        if name in found:
            continue
        if len(found) == _MOST_FILES:
            raise TaskError(f"{first}: imports more than {_MOST_FILES} files of its own folder.")
        text = file.read_text(encoding="utf-8-sig")
        tree = ast.parse(text)
        found[name] = _what_counts(text, tree, own)
        waiting += _local_imports(tree, file.parent, first.parent, top)
    return found


def plain(path: Path) -> Path:
    """Absolute and without "..", links not followed: a link in the folder is a file of the folder."""
    return Path(os.path.abspath(path))


def _what_counts(text: str, tree: ast.Module, own: Collection[str]) -> str:
    """own: names of the task's classes. What stands before a method's body counts, as it runs on import."""
    left_out = {
        line
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in own
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name in OF_THE_SITE
        for line in range(_end_of_head(method) + 1, (method.end_lineno or method.lineno) + 1)
    }
    # Not splitlines(), which ends lines at characters where Python does not.
    lines = [line.rstrip() for number, line in enumerate(text.split("\n"), 1) if number not in left_out]
    return "\n".join(line for line in lines if line)


def _end_of_head(method: ast.FunctionDef) -> int:
    """The last line before the body, or the first line if the body begins there."""
    arguments = [one.end_lineno or 0 for one in ast.walk(method.args) if isinstance(one, ast.expr | ast.arg)]
    returns = (method.returns.end_lineno or 0) if method.returns else 0
    return max([method.lineno, *arguments, returns])


def _local_imports(tree: ast.Module, folder: Path, beside: Path, top: Path) -> Iterator[Path]:
    """beside: the folder of the task's file. top: that of its package, or the same."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
            starts = [beside, top]
            _check_taken(wanted, starts)
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            wanted = [base.rstrip("."), *(f"{base}{alias.name}" for alias in node.names)]
            starts = [folder.joinpath(*[".."] * (node.level - 1))] if node.level else [beside, top]
            if not node.level:
                _check_taken(wanted[:1], starts)
        else:
            continue
        for start in dict.fromkeys(map(plain, starts)):
            for name in wanted:
                yield from _files(start, name.split(".") if name else [], top)


def _check_taken(wanted: Sequence[str], starts: Sequence[Path]) -> None:
    """Raise TaskError if Python takes a module from elsewhere that the task's folder also has.

    Otherwise the digest would cover code that does not run.
    """
    looked_through = {plain(Path(folder or ".")) for folder in sys.path}
    for name, start in ((name.split(".")[0], plain(start)) for name in wanted for start in starts):
        beside = [one for one in (start / name / "__init__.py", start / f"{name}.py") if one.is_file()]
        if not beside and (start / name).is_dir() and any((start / name).glob("**/*.py")):
            beside = [start / name]  # a package without a file of its own
        if not beside or start not in looked_through or start == _OURS.parent:
            continue
        spec = importlib.util.find_spec(name)
        taken = spec and (spec.origin or next(iter(spec.submodule_search_locations or []), None))
        if not taken or not any(os.path.exists(taken) and os.path.samefile(taken, one) for one in beside):
            raise TaskError(
                f"{beside[0]}: `import {name}` takes {taken or 'another module'} instead, which Python finds "
                "first. Give the file another name."
            )


def _files(start: Path, parts: list[str], top: Path) -> Iterator[Path]:
    """The files below `top` that run when the module is imported: its own and those of its packages."""
    star = parts[-1:] == ["*"]
    parts = parts[:-1] if star else parts
    for count in range(len(parts) + 1):
        path = start.joinpath(*parts[:count])
        found = [path / "__init__.py", *([path.with_name(f"{path.name}.py")] if count else [])]
        if star and count == len(parts) and found[0].is_file():
            found += sorted(path.glob("*.py"))  # which its __all__ may name
        inside = (
            file
            for file in found
            if file.is_relative_to(top) and not file.is_relative_to(_OURS) and file.is_file()
        )
        # the folder of a task outside any package holds no package file
        yield from (file for file in inside if count or file.parent != top)
