"""Every small change that can be made in a source file, each with a name that outlives edits elsewhere."""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.mutation.operators import negated, replacements

_LOGGERS = {"logger", "logging", "warnings"}
_NO_BEHAVIOUR = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
_TYPES_AND_DECORATORS = {"annotation", "returns", "decorator_list"}
Put = Callable[[ast.AST], None]


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `file` and `line` say where it is; the other fields say which one it is.

    place: the class and function around it. kind: what is done. before, after: the first line of the
    statement that differs, as `ast.unparse` writes it. nth: counts equal changes at one place, from 0.
    """

    file: str
    line: int
    place: str
    kind: str
    before: str
    after: str
    nth: int

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for the same change of a file that was edited elsewhere; `line` may differ."""
        return (self.file, self.place, self.kind, self.before, self.after, str(self.nth))


def find_changes(file: str, source: str) -> list[Change]:
    """All changes of `source`, the text of `file`, in the order of the syntax tree."""
    return [change for change, _ in _walk_changes(file, ast.parse(source))]


def apply_change(change: Change, source: str) -> str | None:
    """`source` with the change made, without comments; None when it no longer has such a place."""
    tree = ast.parse(source)
    for found, make in _walk_changes(change.file, tree):
        if found.key == change.key:
            make()
            return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return None


def _walk_changes(file: str, tree: ast.Module) -> Iterator[tuple[Change, Callable[[], None]]]:
    seen: Counter[tuple[str, ...]] = Counter()
    for place, statement, node, put, kind, other in _walk(tree):
        before, after = _shown(statement, node, put, other)
        name = (place, kind, before, after)
        line = getattr(node, "lineno", statement.lineno)
        yield (
            Change(file, line, place, kind, before, after, seen[name]),
            lambda put=put, other=other: put(other),  # type: ignore[misc]
        )
        seen[name] += 1


_Found = tuple[str, ast.stmt, ast.AST, Put, str, ast.AST]


def _walk(tree: ast.Module) -> Iterator[_Found]:
    for position, statement in enumerate(tree.body):
        yield from _below(statement, _item(tree.body, position), "", statement)


def _below(node: ast.AST, put: Put, place: str, statement: ast.stmt) -> Iterator[_Found]:
    """The changes of `node` and of all below it. put: replaces it; statement: the innermost around it."""
    if _is_left_alone(node, place):
        return
    if isinstance(node, ast.stmt):
        statement = node
    for kind, other in replacements(node):
        yield place, statement, node, put, kind, other
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        place = f"{place}.{node.name}".lstrip(".")
    for child, put_child, is_condition in _children(node):
        if is_condition and isinstance(child, ast.expr):
            for kind, other in negated(child):
                yield place, statement, child, put_child, kind, other
        yield from _below(child, put_child, place, statement)


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, Put, bool]]:
    """Children, each with what replaces it and whether it is a condition; types and decorators left out."""
    for name, value in ast.iter_fields(node):
        if name in _TYPES_AND_DECORATORS:
            continue
        if isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, ast.AST) and not _is_type(node, name, position):
                    yield item, _item(value, position), name == "ifs"
        elif isinstance(value, ast.AST):
            is_condition = name == "test" and isinstance(node, ast.If | ast.While | ast.IfExp)
            yield value, _attribute(node, name), is_condition


def _is_left_alone(node: ast.AST, place: str) -> bool:
    """Texts of errors and logs, assertions, imports, type aliases, blocks for type checkers or scripts."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in _LOGGERS:
            return True
        case ast.BinOp(op=ast.BitOr()) if not place:
            return True
        case ast.keyword(arg="strict"):  # of zip: an assertion
            return True
    return isinstance(node, _NO_BEHAVIOUR)


def _is_type(node: ast.AST, field: str, position: int) -> bool:
    """Whether an argument of a call is a type: the first of `cast`, the second of `isinstance`."""
    if not (isinstance(node, ast.Call) and field == "args"):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return (name, position) in {("cast", 0), ("isinstance", 1), ("issubclass", 1)}


def _item(items: list[ast.stmt] | list[ast.AST], position: int) -> Put:
    def put(other: ast.AST) -> None:
        items[position] = other  # type: ignore[call-overload]

    return put


def _attribute(node: ast.AST, name: str) -> Put:
    return lambda other: setattr(node, name, other)


def _shown(statement: ast.stmt, node: ast.AST, put: Put, other: ast.AST) -> tuple[str, str]:
    """The first line of the statement that differs, before and after; the tree is left as it was."""
    if node is statement:
        return _first_difference(_text(statement), _text(other))
    before = _text(statement)
    put(other)
    after = _text(statement)
    put(node)
    return _first_difference(before, after)


def _text(node: ast.AST) -> str:
    """A statement's text, of a compound one the head alone."""
    shallow = copy.copy(node)
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        if isinstance(node, ast.stmt) and isinstance(getattr(shallow, name, None), list):
            setattr(shallow, name, [ast.Pass()] if name == "body" else [])
    if isinstance(shallow, ast.Match):
        return ast.unparse(node)
    return ast.unparse(ast.fix_missing_locations(shallow))


def _first_difference(before: str, after: str) -> tuple[str, str]:
    lines = zip(before.splitlines(), after.splitlines(), strict=False)
    return next((pair for pair in lines if pair[0] != pair[1]), (before, after))
