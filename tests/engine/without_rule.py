"""A layer whose operator cannot get a rule, whatever is added to the engine: it is written in Python."""

from typing import Any

import torch
from torch import Tensor, nn


class _Slope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.where(x > 0, x, weight * x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        (grad,) = grads
        return grad * torch.where(x > 0, 1, weight), (grad * x.clamp_max(0)).sum_to_size(weight.shape)


class Slope(nn.Module):
    """A slope for negative numbers, as nn.PReLU has it, one for each feature."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((features,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _Slope.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return output
