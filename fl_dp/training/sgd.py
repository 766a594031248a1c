"""Gradient descent with momentum, without PyTorch's compiler."""

from collections.abc import Sequence

import torch
from torch import Tensor


class MomentumSGD:
    """v = momentum * v + gradient, parameter = parameter - learning_rate * v, as `torch.optim.SGD`.

    Written out because an optimizer of torch.optim imports torch._dynamo. That takes 2 s and 48 MiB in each
    process that trains; a small client's round takes a fraction of that.
    """

    def __init__(self, parameters: Sequence[Tensor], *, learning_rate: float, momentum: float) -> None:
        self._parameters, self._learning_rate, self._momentum = parameters, learning_rate, momentum
        self._velocity: list[Tensor] = []

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step; gradients in the order of the parameters, None for one that never has a gradient."""
        known = [(p, g) for p, g in zip(self._parameters, gradients, strict=True) if g is not None]
        if not self._velocity:
            self._velocity = [gradient.clone() for _, gradient in known] if self._momentum else []
        elif self._momentum:
            for velocity, (_, gradient) in zip(self._velocity, known, strict=True):
                velocity.mul_(self._momentum).add_(gradient)
        moves = self._velocity or [gradient for _, gradient in known]
        for (parameter, _), move in zip(known, moves, strict=True):
            rate = min(self._learning_rate, torch.finfo(parameter.dtype).max)
            parameter.add_(move, alpha=-rate)
