"""Exact, slower answers where no rule applies: what autograd itself would give, example by example.

`pull_back` takes the gradient of an input that is a function of parameters (W + B @ A, a position
table that was indexed) back to the parameters. `masked_grads` finds the gradient of such an input
for an operator without a rule, by its own backward function, with all but one example's rows zero.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Argument, Use
from fl_dp.errors import NonFiniteError


def pull_back(
    edge: GradientEdge, grads: Tensor, parameters: Mapping[str, Tensor], names: Sequence[str]
) -> dict[str, Tensor]:
    """Per-example gradients (N, *shape) of the parameters `names` behind `edge`.

    grads: (N, *shape of the input), its gradient for each example. The graph below `edge` must
    still be there; it may hold data (x[mask] @ W), and then one example's NaN may spoil another's
    gradient (zero times NaN is NaN): raises NonFiniteError.
    """
    leaves = [parameters[name] for name in names]
    if edge.node.name().endswith("AccumulateGrad"):
        return {names[0]: grads}
    rows = [
        torch.autograd.grad([edge], leaves, [grad], retain_graph=True, allow_unused=True) for grad in grads
    ]
    pulled = {}
    for i, (name, leaf) in enumerate(zip(names, leaves, strict=True)):
        column = [torch.zeros_like(leaf) if row[i] is None else row[i] for row in rows]
        pulled[name] = torch.stack(column)
    for pulled_grads in pulled.values():
        _check_spread(grads, pulled_grads, names)
    return pulled


def _check_spread(grads: Tensor, pulled: Tensor, names: Sequence[str]) -> None:
    """What is finite must stay so, unless there is but one example."""
    if len(grads) > 1 and bool((_finite(grads) & ~_finite(pulled)).any()):
        raise NonFiniteError(
            f"{', '.join(names)}: values that are not finite, and no rule to tell whose they are; take the "
            "examples one at a time."
        )


def _finite(grads: Tensor) -> Tensor:
    """(N,) whether an example's gradient is."""
    return grads.reshape(len(grads), -1).isfinite().all(1)


def masked_grads(use: Use, argument: Argument, grad: Tensor, axis: BatchAxis, num_examples: int) -> Tensor:
    """(N, *shape of the input): its gradient when only one example's rows of `grad` count.

    One call of the operator's backward function for each example: N times its cost. Raises
    NonFiniteError where one example's NaN may have spoilt another's gradient (zero times NaN is NaN):
    counting both as zero would let one record decide what the others contribute.
    """
    owner = axis.owners(grad.shape[axis.dim], num_examples, grad.device)
    owner = owner.view(-1, *(1,) * (grad.dim() - axis.dim - 1))
    found = []
    for n in range(num_examples):
        inputs = use.node(torch.where(owner == n, grad, 0))  # type: ignore[operator]
        mine = inputs[argument.number] if isinstance(inputs, tuple) else inputs
        # a backward function may leave it to autograd to sum over what was broadcast
        found.append(grad.new_zeros(argument.shape) if mine is None else mine.sum_to_size(argument.shape))
    grads = torch.stack(found)
    if num_examples > 1 and not bool(grads.isfinite().all()):
        raise NonFiniteError(
            f"{argument.key}: values that are not finite, and no rule to tell whose they are; take the "
            "examples one at a time, or add a rule under fl_dp/engine/rules/."
        )
    return grads
