"""What a small change does to one node of a syntax tree."""

import ast
import copy
from collections.abc import Iterator

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


def replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(kind, node to put in its place) for every small change of `node` itself, not of what is below it.

    `node` stays as it is. A condition is negated by `negated`, because only its parent knows that it is one.
    """
    match node:
        case ast.BinOp(op=op) if not _joins_text(node):
            yield "arithmetic", _with(node, op=_ARITHMETIC[type(op)]())
        case ast.AugAssign(op=op):
            yield "augmented assignment", _with(node, op=_ARITHMETIC[type(op)]())
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp(op=op):
            yield "boolean operator", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not dropped", operand
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "minus dropped", operand
        case ast.Constant(value=bool() | int() | float() as value):
            yield from (("constant", ast.Constant(other)) for other in _numbers(value))
        case ast.Return(value=ast.expr() as returned) if not isinstance(returned, ast.Constant):
            yield "return value", ast.Return(ast.Constant(None))
        case ast.Break():
            yield "break", ast.Continue()
        case ast.Continue():
            yield "continue", ast.Break()
        case ast.MatchValue(value=ast.Constant(value=str() as text)):
            yield "compared text", ast.MatchValue(ast.Constant(text + "?"))


def negated(condition: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """The opposite of a condition, unless a change of its own operator gives that already."""
    single = isinstance(condition, ast.Compare) and len(condition.ops) == 1
    if not single and not isinstance(condition, ast.Constant | ast.UnaryOp):
        yield "condition negated", ast.UnaryOp(ast.Not(), condition)


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for position, op in enumerate(node.ops):
        for other in _COMPARISONS[type(op)]:
            ops = [*node.ops[:position], other(), *node.ops[position + 1 :]]
            yield "comparison", _with(node, ops=ops)
    for position, value in enumerate(node.comparators):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            changed = ast.Constant(value.value + "?")
            others = [*node.comparators[:position], changed, *node.comparators[position + 1 :]]
            yield "compared text", _with(node, comparators=others)


def _numbers(value: bool | int | float) -> tuple[bool | int | float, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, value - 1)
    return (2 * value if value else 1.0,)


def _joins_text(node: ast.BinOp) -> bool:
    """Whether the operator makes a path or a text of its operands, and does not calculate."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
