"""A copy of a model that takes the steps that a private loop should have taken, one backward per example."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from definition import clipped_one_by_one, trainable
from torch import Tensor, nn

Sum = Callable[[nn.Module, Iterable[Tensor], float], Mapping[str, Tensor]]


class Twin:
    """Made before the loop, of its model in float64; `clipped` sums the gradients of losses of one example.

    seed: of the generator that the loop's engine draws its noise from.
    """

    def __init__(self, model: nn.Module, seed: int = 4, clipped: Sum = clipped_one_by_one) -> None:
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
        self.model, self._clipped = copy.deepcopy(model), clipped
        self._generator = torch.Generator().manual_seed(seed)

    def set_grads(
        self,
        losses_of: Callable[..., Tensor],
        batch: Iterable[tuple[Any, ...]],
        *,
        batch_size: int,
        noise_multiplier: float = 0.0,
        max_grad_norm: float,
    ) -> None:
        """The noisy mean of a logical batch. losses_of: (model, inputs, targets) -> (N,)."""
        rows = [(x[n : n + 1], y[n : n + 1]) for x, y in batch for n in range(len(x))]
        total = self._clipped(self.model, (losses_of(self.model, x, y) for x, y in rows), max_grad_norm)
        for name, parameter in trainable(self.model).items():
            noise = torch.empty_like(parameter, requires_grad=False)
            noise.normal_(0.0, noise_multiplier * max_grad_norm or 1.0, generator=self._generator)
            parameter.grad = (total[name] + (noise if noise_multiplier else 0.0)) / batch_size

    def assert_same(self, model: nn.Module) -> None:
        for name, parameter in self.model.named_parameters():
            torch.testing.assert_close(model.get_parameter(name), parameter, rtol=1e-9, atol=1e-9)
