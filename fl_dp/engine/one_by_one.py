"""The clipped sum by an ordinary backward pass for each example; it relies on no property of batches.

An example that is alone in its pass adds a vector that follows from itself, the weights and its masks, and
from no other example. However the pass rounds, this very vector is measured, scaled to C at most, and added.
The only rounding that involves other examples is that of their sum, in float64 (`sum_error.py`).

It is still assumed that a pass has no memory: its result for the same bits must not depend on earlier passes.
(The result may be random: a random vector of length C at most is as good.)
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fl_dp.engine.bounds import Bounds
from fl_dp.engine.clip_functions import ClipFunction
from fl_dp.engine.clipping import (
    ClippedSum,
    checked_clipping,
    checked_groups,
    clip_factors,
    empty_sum,
)
from fl_dp.engine.gradients.kept import keep_instantiated
from fl_dp.engine.rounding import add_to, long_type
from fl_dp.engine.sum_error import MOST_IN_FLOAT32


class OneByOneSum:
    """The clipped sum over examples that are added one after the other, in float64.

    parameters, max_grad_norm, clipping, most: as of `clipped_grad_sum`.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        max_grad_norm: Bounds,
        clipping: ClipFunction | str = "abadi",
        most: int = MOST_IN_FLOAT32,
    ) -> None:
        self._parameters, self._clipping = parameters, checked_clipping(clipping)
        self._groups = checked_groups(max_grad_norm, parameters, self._clipping)
        self._empty = empty_sum(parameters, max_grad_norm, clipping, most=most)
        self._sums = {name: grad.to(long_type(grad)) for name, grad in self._empty.grads.items()}
        self._norms = [self._empty.norms]

    def add(self, losses: Tensor) -> None:
        """Add the example whose loss is `losses` (1,); its graph is freed. If it raises, nothing is added."""
        grads = torch.autograd.grad(losses.sum(), list(self._parameters.values()), allow_unused=True)
        there = {
            name: grad.to_dense() if grad.is_sparse else grad
            for name, grad in zip(self._parameters, grads, strict=True)
            if grad is not None
        }
        kept = {name: keep_instantiated(grad.unsqueeze(0)) for name, grad in there.items()}
        factors, norms = clip_factors(kept, self._parameters, losses.detach(), self._groups, self._clipping)
        self._norms.append(norms)
        if not norms.isfinite().all():
            return  # times zero it would still be NaN
        for name, grad in there.items():
            add_to(self._sums[name], grad, factors[name].item())

    def total(self) -> ClippedSum:
        """The sum so far."""
        return replace(self._empty, grads=self._sums, norms=torch.cat(self._norms))
