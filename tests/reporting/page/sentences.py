"""The sentences of a page of one run, read from the code that has them, and from its templates."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from fl_dp.reporting import page, promise

_PAGE = Path(str(page.__file__)).parent
# Of no page; of pictures, which say numbers of their own tables.
_NOT_HERE = {"curves.py", "write.py", "read.py", "digest.py"}
_LEAST, _LEAST_ENDED = 5, 3  # words; what has fewer is the name of a row or column


def sentences() -> list[str]:
    """Each text as long as the code has it in one piece: its parts stand and fall together."""
    files = [one for one in sorted(_PAGE.glob("*.py")) if one.name not in _NOT_HERE]
    found = [text for file in (*files, Path(str(promise.__file__))) for text in _of_code(file)]
    found += [text for file in sorted((_PAGE / "templates").glob("*.html")) for text in _of_template(file)]
    return [text for text in dict.fromkeys(map(_single_spaced, found)) if _is_sentence(text)]


def _is_sentence(text: str) -> bool:
    return len(_words(text)) >= (_LEAST_ENDED if text.endswith(".") else _LEAST)


def _of_code(file: Path) -> Iterator[str]:
    """The longest part of each text that is no docstring and no error."""
    tree = ast.parse(file.read_text())
    hidden = {
        id(part)
        for one in ast.walk(tree)
        if isinstance(one, ast.Raise) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for part in ast.walk(one)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in hidden:
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            hidden |= {id(part) for part in parts}
            if parts:
                yield max((str(part.value) for part in parts), key=len)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.value


def _of_template(file: Path) -> Iterator[str]:
    """What stands between two tags, of HTML or of the template."""
    text = re.sub(r"<style>.*?</style>", "", file.read_text(), flags=re.DOTALL)
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "\0", text)
    yield from re.split(r"\0|</?[a-z!][^>]*>", re.sub(r"<[a-z!][^>]*>", "\0", text))


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z][a-z]+", text)
