"""What every rule is given, and how it refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from fl_dp.engine.axis import BatchAxis
from fl_dp.engine.capture import UseKey
from fl_dp.engine.forms import Form
from fl_dp.errors import ModelError, NoRuleError


@dataclass(frozen=True, slots=True)
class Site:
    """One input of an operator that is made of parameters, and the gradient of the operator's output.

    node: the operator's autograd node; what the forward pass saved is in its `_saved_*` attributes.
    shape: the input's. transposed: the input is the transpose of the parameter, and the form is to
    be the parameter's. parameters: how many such inputs the operator has.
    """

    key: UseKey
    node: Any
    shape: torch.Size
    transposed: bool
    parameters: int
    grad: Tensor
    axis: BatchAxis
    num_examples: int

    def rows(self, tensor: Tensor) -> Tensor:
        """`tensor` as (N, K, ...), K rows an example."""
        return self.axis.split(tensor, self.num_examples)


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
