"""Sees every use of a trainable parameter: the autograd graph of the losses is the record.

Nothing is hooked or patched during the forward pass. Whatever the model's code was, a parameter
can reach a loss only through an edge of the graph into its AccumulateGrad node, so a walk over the
graph finds every use, inside composite operators too, and cannot miss one
(docs/decisions/0001-capture-from-the-autograd-graph.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

# Operators that only reshape or cast a parameter on its way to the operator that uses it.
PATH_OPERATORS = {"TBackward0", "ToCopyBackward0"}


@dataclass(frozen=True, slots=True)
class UseKey:
    """What tells one use from another, the same in every step: parameter, operator, argument."""

    parameter: str
    operator: str
    argument: int

    def __str__(self) -> str:
        return f"{self.operator.removesuffix('Backward0')} (parameter {self.parameter})"


@dataclass(frozen=True, slots=True)
class Use:
    """One operator's node in the graph with the parameters that enter it.

    arguments: argument index -> parameter name; paths: argument index -> names of the operators
    between the parameter and the node. frontier: no other use lies below, so nothing needs the
    gradient of its inputs.
    """

    node: Node
    arguments: Mapping[int, str]
    paths: Mapping[int, tuple[str, ...]]
    frontier: bool

    @property
    def keys(self) -> tuple[UseKey, ...]:
        return tuple(UseKey(name, self.node.name(), i) for i, name in self.arguments.items())


def find_uses(losses: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Use, ...]:
    """Every use of `parameters` in the graph of `losses`, those nearest the input first."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    uses: list[Use] = []
    has_use_below: dict[Node, bool] = {}
    if losses.grad_fn is None:
        return ()
    for node in _post_order(losses.grad_fn):
        origins = [_origin(child, names) for child, _ in node.next_functions]
        is_path = node.name() in PATH_OPERATORS and origins[0] is not None
        arguments = {i: origin for i, origin in enumerate(origins) if origin is not None}
        below = any(
            child is not None and has_use_below.get(child, False)
            for child, origin in zip((c for c, _ in node.next_functions), origins, strict=True)
            if origin is None
        )
        if arguments and not is_path:
            uses.append(
                Use(
                    node,
                    {i: name for i, (name, _) in arguments.items()},
                    {i: path for i, (_, path) in arguments.items()},
                    frontier=not below,
                )
            )
            below = True
        has_use_below[node] = below
    return tuple(uses)


def _origin(node: Node | None, names: Mapping[int, str]) -> tuple[str, tuple[str, ...]] | None:
    """(parameter, operators on the way) if `node` is a trainable parameter, perhaps reshaped."""
    path: list[str] = []
    while node is not None:
        variable = getattr(node, "variable", None)
        if variable is not None:
            name = names.get(id(variable))
            return None if name is None else (name, tuple(path))
        if node.name() not in PATH_OPERATORS:
            return None
        path.append(node.name())
        node = node.next_functions[0][0]
    return None


def _post_order(root: Node) -> list[Node]:
    """All nodes below `root`, children before parents; iterative, so deep graphs are fine."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child, _ in node.next_functions if child is not None)
    return order


def output_grads(
    losses: Tensor,
    uses: tuple[Use, ...],
    on_grad: Callable[[Use, Tensor], None],
    *,
    retain_graph: bool = False,
) -> None:
    """One backward pass of the summed losses; `on_grad` gets each use's output gradient as it arrives.

    No parameter gradient is computed on the way, and none below the frontier. A use that no
    gradient reaches (its output does not matter to the losses) is not reported.
    """
    frontier = [use for use in uses if use.frontier]
    inner = [use for use in uses if not use.frontier]
    handles = [use.node.register_prehook(_reporter(use, on_grad)) for use in inner]
    try:
        grads = torch.autograd.grad(
            losses,
            [GradientEdge(use.node, 0) for use in frontier],
            torch.ones_like(losses),
            retain_graph=retain_graph,
            allow_unused=True,
        )
    finally:
        for handle in handles:
            handle.remove()
    for use, grad in zip(frontier, grads, strict=True):
        if grad is not None:
            on_grad(use, grad)


def _reporter(use: Use, on_grad: Callable[[Use, Tensor], None]) -> Callable[..., Any]:
    def report(grads: tuple[Tensor | None, ...]) -> None:
        if grads[0] is not None:
            on_grad(use, grads[0])

    return report
