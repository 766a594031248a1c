"""The input of every rule, its description, its refusal, and functions that several rules share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from fl_dp.engine.gradients.layouts import Dense, GradientLayout
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Argument, UseKey
from fl_dp.errors import NoRuleError


@dataclass(frozen=True, slots=True)
class Site:
    """One operator input that is made of parameters, and the gradient of the operator's output.

    argument: the input. node: the operator's autograd node; its `_saved_*` attributes hold what the forward
    pass saved. transposed: whether the input is the transpose of the parameter; the rule returns the layout
    of the parameter's gradient. parameters: how many of the operator's inputs are made of parameters.
    """

    argument: Argument
    node: Any
    transposed: bool
    parameters: int
    grad: Tensor
    axis: BatchAxis
    num_examples: int

    @property
    def key(self) -> UseKey:
        return self.argument.key

    @property
    def shape(self) -> torch.Size:
        return self.argument.shape

    def rows(self, tensor: Tensor) -> Tensor:
        """`tensor` as (N, K, ...), with K rows for each example."""
        return self.axis.split(tensor, self.num_examples)

    def sums(self, tensor: Tensor) -> Tensor:
        """`tensor` as (N, ...): each example's rows added up."""
        if self.axis.dim == 0 and tensor.shape[0] == self.num_examples:
            return tensor
        rows = self.rows(tensor)
        return rows.sum(1) if rows.shape[1] != 1 else rows.squeeze(1)  # a sum over one row would copy


@dataclass(frozen=True, slots=True)
class Rule:
    """What the engine knows about one autograd operator.

    layout_of: the layout of the gradient of the input that a `Site` describes; it raises NoRuleError
    for a use of the operator that it does not cover.
    only_checked: the rule may be used only for a model that `probe` has checked, because the graph
    alone does not show where the examples are in the operator's output.
    """

    layout_of: Callable[[Site], GradientLayout]
    only_checked: bool = False


# Operators that stand for many steps at once, and replacements whose steps the engine can see.
_STEPS = {
    "MkldnnRnnLayerBackward0": "call fl_dp.probe(model, ...) first, after which nn.LSTM runs unfused",
    "CudnnRnnBackward0": "set torch.backends.cudnn.enabled = False before the model is used",
}


def refuse(key: UseKey, reason: str) -> NoReturn:
    """Raise NoRuleError: names the operator and parameter that cannot be protected, and what can be done."""
    instead = _STEPS.get(key.operator, "add a rule under fl_dp/engine/rules/")
    raise NoRuleError(
        f"{key.operator.removesuffix('Backward0')} consumes {', '.join(key.parameters)}, but {reason}; "
        f"{instead}, or freeze the parameter (requires_grad_(False))."
    )


def broadcast_sum(site: Site, grad: Tensor) -> GradientLayout:
    """Per-example gradients of an input that was broadcast to the output's shape.

    grad: (*output's shape), the gradient of every element of the broadcast input. It is summed, for each
    example, over the dimensions along which `site.shape` was broadcast.
    """
    if site.transposed:
        refuse(site.key, "a transposed parameter that is broadcast has no rule")
    shape = site.shape
    if site.axis.dim >= grad.dim() - len(shape) and shape[site.axis.dim - grad.dim()] != 1:
        refuse(site.key, f"its shape {tuple(shape)} spans the batch")
    grads = site.rows(grad)  # (N, K, *other dimensions)
    return Dense(_unbroadcast(grads, site.axis.dim, grad.dim(), shape))


def _unbroadcast(grads: Tensor, batch_dim: int, dims: int, shape: tuple[int, ...]) -> Tensor:
    """Sum (N, K, *others) over K and over every dimension that `shape` was broadcast along."""
    others = [d for d in range(dims) if d != batch_dim]
    broadcast = [
        2 + position for position, d in enumerate(others) if d < dims - len(shape) or shape[d - dims] == 1
    ]
    return grads.sum((1, *broadcast)).reshape(grads.shape[0], *shape)
