"""The autograd graph below the losses, walked once and shared by all who ask about it."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

# A node's inputs as autograd gives them: the node that each comes from (None: no gradient), its output.
Inputs = tuple[tuple[Node | None, int], ...]


class Operator(NamedTuple):
    """What a node stands for; asked once, as each answer of autograd's is made anew."""

    name: str
    inputs: Inputs


# Every node below the losses, children before parents.
Graph = Mapping[Node, Operator]


def graph_of(losses: Tensor) -> Graph:
    """The graph of `losses`; iterative, so deep graphs are fine."""
    graph: dict[Node, Operator] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, Inputs | None]] = [] if losses.grad_fn is None else [(losses.grad_fn, None)]
    while stack:
        node, inputs = stack.pop()
        if inputs is not None:
            graph[node] = Operator(node.name(), inputs)
        elif node not in seen:
            seen.add(node)
            inputs = node.next_functions
            stack.append((node, inputs))
            stack.extend((child, None) for child, _ in inputs if child is not None)
    return graph
