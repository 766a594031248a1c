"""The autograd graph below the losses, walked once for everything that needs it."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor
from torch.autograd.graph import Node

# A node's inputs: for each, its source node (None if it needs no gradient), and which of its outputs.
Inputs = tuple[tuple[Node | None, int], ...]


class Operator(NamedTuple):
    """A node's name and inputs, read once: autograd makes new objects for each request."""

    name: str
    inputs: Inputs


# Every node below the losses, children before parents.
Graph = Mapping[Node, Operator]


def graph_of(losses: Tensor) -> Graph:
    """The graph of `losses`, walked without recursion, so that a deep graph is no problem."""
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
