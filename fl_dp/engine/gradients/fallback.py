"""Exact but slow gradients where no rule applies: by autograd itself, one example after the other.

`masked_grads` finds the gradient of one input of an operator without a rule: it calls the operator's own
backward function with all rows set to zero except those of one example. `pull_back` takes the gradient of an
input that is a function of parameters (W + B @ A, an indexed position table) back to the parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import GraphExecGroup

from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Argument, Use
from fl_dp.errors import NonFiniteError, NoRuleError


def pull_back(
    edge: GradientEdge,
    grads: Tensor,
    parameters: Mapping[str, Tensor],
    names: Sequence[str],
    *,
    overwrite: bool = False,
) -> dict[str, Tensor]:
    """Per-example gradients (N, *shape) of the parameters `names` behind `edge`.

    grads: (N, *shape of the input), its gradient for each example. The graph below `edge` must still exist.
    It may hold data (x[mask] @ W). Then one example's NaN may spoil another's gradient, because zero times
    NaN is NaN, and NonFiniteError is raised. overwrite: the results may take the memory of `grads`. This
    halves the time if these have many MiB, because most of it goes into new memory.
    """
    leaves = [parameters[name] for name in names]
    if edge.node.name().endswith("AccumulateGrad"):
        return {names[0]: grads}
    were_finite = _finite(grads)
    there = _place_of(grads, leaves) if overwrite else None
    pulled = [
        grads if i == there else leaf.new_empty(len(grads), *leaf.shape) for i, leaf in enumerate(leaves)
    ]
    # the place of `grad` last: what is found for the others may be `grad` itself
    order = sorted(range(len(leaves)), key=lambda i: i == there)
    for n, grad in enumerate(grads):
        found = torch.autograd.grad([edge], leaves, [grad], retain_graph=True, allow_unused=True)
        for i in order:
            mine = found[i]
            if i == there and mine is not None and _share_memory(mine, grads):
                mine = mine.clone()  # `grad` transposed would be half overwritten before it is read
            pulled[i][n] = 0 if mine is None else mine.to_dense()  # those of nn.Embedding may be sparse
    for pulled_grads in pulled:
        _check_spread(were_finite, pulled_grads, names)
    return dict(zip(names, pulled, strict=True))


def _place_of(grads: Tensor, leaves: Sequence[Tensor]) -> int | None:
    """The first leaf whose gradients have the shape and type of `grads`."""
    kind = grads.shape[1:], grads.dtype
    return next((i for i, leaf in enumerate(leaves) if (leaf.shape, leaf.dtype) == kind), None)


def _share_memory(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _check_spread(were_finite: Tensor, pulled: Tensor, names: Sequence[str]) -> None:
    """NonFiniteError if a finite gradient became non-finite, unless there is only one example."""
    if len(pulled) > 1 and bool((were_finite & ~_finite(pulled)).any()):
        raise NonFiniteError(
            f"{', '.join(names)}: values that are not finite, and no rule says which examples they belong "
            "to; process the examples one at a time."
        )


def _finite(grads: Tensor) -> Tensor:
    """(N,) whether an example's gradient (N, ...) is finite; a finite sum has only finite terms."""
    rows = grads.reshape(len(grads), -1)
    finite = rows.sum(1).isfinite()
    return finite if bool(finite.all()) else rows.isfinite().all(1)


def masked_grads(use: Use, argument: Argument, grad: Tensor, axis: BatchAxis, num_examples: int) -> Tensor:
    """(N, *shape of the input): for each example, the input's gradient if only its rows of `grad` count.

    Calls the operator's backward function once for each example, at N times its cost. Raises
    NonFiniteError if one example's NaN may have spoilt another's gradient, because zero times NaN is NaN.
    Counting both gradients as zero would let one record decide what the others contribute.
    """
    owner = axis.owners(grad.shape[axis.dim], num_examples, grad.device)
    owner = owner.view(-1, *(1,) * (grad.dim() - axis.dim - 1))
    found = []
    for n in range(num_examples):
        with GraphExecGroup():  # checkpointed parts are recomputed once per call, not once per tensor
            inputs = _call_backward(use, argument, torch.where(owner == n, grad, 0))
        mine = inputs[argument.number] if isinstance(inputs, tuple) else inputs
        # a backward function may leave the sum over broadcast dimensions to autograd
        found.append(grad.new_zeros(argument.shape) if mine is None else mine.sum_to_size(argument.shape))
    grads = torch.stack(found)
    if num_examples > 1 and not bool(grads.isfinite().all()):
        raise NonFiniteError(
            f"{argument.key}: values that are not finite, and no rule says which examples they belong to; "
            "process the examples one at a time, or add a rule under fl_dp/engine/rules/."
        )
    return grads


def _call_backward(use: Use, argument: Argument, grad: Tensor) -> Any:
    """The gradients of the operator's inputs: a tensor or None, or a tuple of these.

    A user's own `torch.autograd.Function` returns one for each argument, even for those that are no tensors;
    the graph knows only the tensors. If the numbers differ, NoRuleError is raised.
    """
    node: Any = use.node
    if not isinstance(node, BackwardCFunction):
        return node(grad)
    found: Any = node.apply(grad)  # type: ignore[no-untyped-call]
    if (len(found) if isinstance(found, tuple) else 1) != len(node.next_functions):
        raise NoRuleError(
            f"{argument.key}: a torch.autograd.Function with arguments that are not tensors, so the engine "
            "cannot tell which gradient is the parameter's; pass tensors alone, add a rule under "
            "fl_dp/engine/rules/, or freeze the parameter (requires_grad_(False))."
        )
    return found
