"""Finds every use of a trainable parameter in the autograd graph of the losses.

Nothing is hooked or patched during the forward pass. Whatever the model's code does, a parameter can reach a
loss only through an edge of the graph into its AccumulateGrad node. So a walk over the graph finds every use,
also inside composite operators, and cannot miss one (docs/decisions/0001-capture-from-the-autograd-graph.md).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from fl_dp.errors import ModelError

# Operators of one input that only reshape or cast: their output still consists of the parameter alone.
SHAPE_OPERATORS = frozenset(
    f"{name}Backward0"
    for name in (
        "Alias",
        "Clone",
        "Permute",
        "Reshape",
        "ReshapeAlias",
        "Select",
        "Slice",
        "Squeeze",
        "T",
        "ToCopy",
        "Transpose",
        "UnsafeView",
        "Unsqueeze",
        "View",
    )
) | {"SqueezeBackward1"}
# Operators that a rule allows between a parameter and its use: rules handle the transpose and casts.
PLAIN_PATH = frozenset({"TBackward0", "ToCopyBackward0"})


REENTRANT = (
    "torch.utils.checkpoint with use_reentrant=True hides its part of the model, and the parameters in it, "
    "from the autograd graph; pass use_reentrant=False."
)
# Operators that stand for a whole part of a model and hide its contents, and what to use instead.
_HIDING = {
    "CheckpointFunctionBackward": REENTRANT,
    "CompiledFunctionBackward": "torch.compile makes one operator of its part of the model, in which no "
    "example's gradient can be told from another's; use the module that was compiled (its _orig_mod), "
    "compile only frozen layers below all trainable ones, or use backend='eager'.",
}

# Operators on a list of tensors of any length, which treat all of them alike.
LISTS = frozenset({"CatBackward0", "StackBackward0"})


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


@dataclass(frozen=True, slots=True)
class UseKey:
    """Identifies a use in every step: by operator, number of the argument, and parameters.

    argument: always 0 for `LISTS`, which may have one input for each example.
    """

    operator: str
    argument: int
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.operator.removesuffix('Backward0')} (parameter {', '.join(self.parameters)})"


# Identifies an operator by all of its inputs that are made of parameters: B @ A has two, x @ (B @ A) one.
OperatorKey = frozenset[UseKey]


@dataclass(frozen=True, slots=True)
class Argument:
    """One operator input that is made of parameters alone: a parameter, or a function of several.

    number: which input. edge: where it comes from in the graph. path: the operators between the parameter and
    the use, if there is one parameter and all operators are in `PLAIN_PATH`; else None.
    """

    key: UseKey
    number: int
    edge: GradientEdge
    path: tuple[str, ...] | None

    @property
    def shape(self) -> torch.Size:
        """The shape in which the operator gets the input."""
        return torch.Size(self.edge.node._input_metadata[self.edge.output_nr].shape)


@dataclass(frozen=True, slots=True)
class Use:
    """An operator in which parameters meet data.

    frontier: no other use lies below it, so the gradient of its inputs is not needed.
    """

    node: Node
    arguments: tuple[Argument, ...]
    frontier: bool

    @property
    def keys(self) -> tuple[UseKey, ...]:
        return tuple(argument.key for argument in self.arguments)


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a node's value is made of. names: the parameters, if only of these; empty if data are in it."""

    names: tuple[str, ...] = ()
    path: tuple[str, ...] | None = None


_DATA = _Origin()


def find_uses(
    losses: Tensor,
    parameters: Mapping[str, Tensor],
    shared: frozenset[OperatorKey] = frozenset(),
    graph: Graph | None = None,
) -> tuple[Use, ...]:
    """Every use of `parameters` in the graph of `losses`, those nearest the input first.

    shared: operators that `probe` found to belong to no single example, such as W + B @ A. The use is then
    the operator in which their result meets data. graph: that of the losses, if it is known.
    Raises ModelError for a part of the model that is not in the graph.
    """
    names = {id(parameter): name for name, parameter in parameters.items()}
    graph = graph or graph_of(losses)
    _refuse_hidden_parts(graph)
    uses: list[Use] = []
    origins: dict[Node, _Origin] = {}
    use_below: dict[Node, bool] = {}
    for node, operator in graph.items():
        if not operator.inputs:
            origins[node], use_below[node] = _origin_of_leaf(node, operator.name, names), False
            continue
        below = any(use_below[child] for child, _ in operator.inputs if child is not None)
        arguments = _arguments(operator, origins)
        origins[node] = _origin(operator.name, arguments, shared) if arguments else _DATA
        if arguments and not origins[node].names:
            uses.append(Use(node, arguments, frontier=not below))
            below = True
        use_below[node] = below
    last = losses.grad_fn
    if last is not None and origins[last].names:
        operator = Operator(last.name(), last.next_functions)
        uses.append(Use(last, _arguments(operator, origins), frontier=True))
    return tuple(uses)


def _refuse_hidden_parts(graph: Graph) -> None:
    for operator in graph.values():
        if operator.name in _HIDING:
            raise ModelError(_HIDING[operator.name])


def _arguments(operator: Operator, origins: Mapping[Node, _Origin]) -> tuple[Argument, ...]:
    arguments = []
    for i, (child, number) in enumerate(operator.inputs):
        if child is not None and (origin := origins[child]).names:
            key = UseKey(operator.name, 0 if operator.name in LISTS else i, origin.names)
            arguments.append(Argument(key, i, GradientEdge(child, number), origin.path))
    return tuple(arguments)


def _origin(name: str, arguments: Sequence[Argument], shared: frozenset[OperatorKey]) -> _Origin:
    entering = tuple(sorted({name for argument in arguments for name in argument.key.parameters}))
    if name in SHAPE_OPERATORS:
        path = arguments[0].path
        plain = path is not None and name in PLAIN_PATH
        return _Origin(entering, (*path, name) if plain and path is not None else None)
    operator = frozenset(argument.key for argument in arguments)
    return _Origin(entering) if operator in shared else _DATA


def _origin_of_leaf(node: Node, name: str, names: Mapping[int, str]) -> _Origin:
    if not name.endswith("AccumulateGrad"):
        return _DATA
    parameter = names.get(id(node.variable))  # type: ignore[attr-defined]
    return _DATA if parameter is None else _Origin((parameter,), ())


def output_grads(
    losses: Tensor,
    uses: tuple[Use, ...],
    on_grad: Callable[[Use, Tensor], None],
    *,
    weights: Tensor | None = None,
    retain_graph: bool = False,
) -> None:
    """One backward pass of the summed losses; `on_grad` gets each use's output gradient as it arrives.

    No gradient of a parameter is computed, and none below the frontier. A use whose output does not affect
    the losses gets no gradient and is not reported.
    weights: (N,), the weights of the losses in the sum; None for ones.
    """
    frontier = [use for use in uses if use.frontier]
    inner = [use for use in uses if not use.frontier]
    handles = [use.node.register_prehook(_reporter(use, on_grad)) for use in inner]
    try:
        # A scalar needs no output gradients. Given some, autograd.grad imports sympy, which takes a second.
        with torch.enable_grad():
            total = (losses * (torch.ones_like(losses) if weights is None else weights)).sum()
        grads = torch.autograd.grad(
            total,
            [GradientEdge(use.node, 0) for use in frontier],
            retain_graph=retain_graph,
            allow_unused=True,
        )
    finally:
        for handle in handles:
            handle.remove()
    for use, grad in zip(frontier, grads, strict=True):
        if grad is not None:
            on_grad(use, grad)


@contextmanager
def changed_grads(uses: tuple[Use, ...], change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within it, every backward pass replaces each use's output gradients by `change` of them."""

    def changed(grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(None if grad is None else change(grad) for grad in grads)

    handles = [use.node.register_prehook(changed) for use in uses]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _reporter(use: Use, on_grad: Callable[[Use, Tensor], None]) -> Callable[..., Any]:
    def report(grads: tuple[Tensor | None, ...]) -> None:
        if grads[0] is not None:
            on_grad(use, grads[0])

    return report
