"""What every rule is given, and how it refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from fl_dp.engine.gradients.layouts import Form
from fl_dp.engine.tracing.axis import BatchAxis
from fl_dp.engine.tracing.capture import Argument, UseKey
from fl_dp.errors import ModelError, NoRuleError


@dataclass(frozen=True, slots=True)
class Site:
    """One input of an operator that is made of parameters, and the gradient of the operator's output.

    node: the operator's autograd node; what the forward pass saved is in its `_saved_*` attributes.
    argument: the input. transposed: it is the transpose of the parameter, and the form is to
    be the parameter's. parameters: how many such inputs the operator has.
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
        """Of the input."""
        return self.argument.shape

    def rows(self, tensor: Tensor) -> Tensor:
        """`tensor` as (N, K, ...), K rows an example."""
        return self.axis.split(tensor, self.num_examples)

    def sums(self, tensor: Tensor) -> Tensor:
        """`tensor` as (N, ...), an example's rows added up."""
        if self.axis.dim == 0 and tensor.shape[0] == self.num_examples:
            return tensor
        rows = self.rows(tensor)
        return rows.sum(1) if rows.shape[1] != 1 else rows.squeeze(1)  # a sum over one would copy


Rule = Callable[[Site], Form]


def refuse(key: UseKey, reason: str) -> NoReturn:
    """Say which operator and parameter cannot be protected, and what can be done."""
    raise NoRuleError(
        f"{key.operator.removesuffix('Backward0')} consumes {', '.join(key.parameters)}, but {reason}; "
        "add a rule under fl_dp/engine/rules/, or freeze the parameter (requires_grad_(False))."
    )


def mixes(key: UseKey, reason: str) -> NoReturn:
    """Say that what one example contributes depends on others: no rule and no fallback can mend that."""
    raise ModelError(
        f"{key.operator.removesuffix('Backward0')} consumes {', '.join(key.parameters)}, but {reason}; "
        "examples then move one another's gradients, which no clipping bounds: switch that off."
    )
