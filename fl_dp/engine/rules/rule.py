"""What every rule is given, and how it refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from fl_dp.engine.axis import BatchAxis
from fl_dp.engine.capture import UseKey
from fl_dp.engine.forms import Form
from fl_dp.errors import NoRuleError


@dataclass(frozen=True, slots=True)
class Site:
    """One parameter entering one operator, with the gradient of the operator's output.

    node: the operator's autograd node; what the forward pass saved is in its `_saved_*` attributes.
    shape: the parameter's; path: operators between it and the node; parameters: how many enter
    the node; grad: gradient of the node's output.
    """

    key: UseKey
    node: Any
    shape: torch.Size
    path: tuple[str, ...]
    parameters: int
    grad: Tensor
    axis: BatchAxis
    num_examples: int

    @property
    def transposed(self) -> bool:
        """Whether the parameter enters as its transpose."""
        return self.path.count("TBackward0") % 2 == 1

    def rows(self, tensor: Tensor) -> Tensor:
        """`tensor` as (N, K, ...), K rows an example."""
        return self.axis.split(tensor, self.num_examples)


Rule = Callable[[Site], Form]


def refuse(key: UseKey, reason: str) -> NoReturn:
    """Say which operator and parameter cannot be protected, and what can be done."""
    raise NoRuleError(
        f"{key.operator.removesuffix('Backward0')} consumes {key.parameter}, but {reason}; "
        "add a rule under fl_dp/engine/rules/, or freeze the parameter (requires_grad_(False))."
    )
