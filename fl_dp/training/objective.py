"""What a trainer minimises: each example's own loss, for data of a form."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fl_dp.form import Form

Batch = tuple[Tensor, Tensor]  # inputs (n, *input_shape), targets (n, ...)


@dataclass(frozen=True, slots=True)
class Objective:
    """losses: model and batch to losses (n,), each of its own example alone. form: of the data."""

    losses: Callable[[nn.Module, Batch], Tensor]
    form: Form

    def blank(self, size: int) -> Batch:
        """`size` examples of random numbers, the same whatever the data hold; from torch's global generator.

        Their targets are valid: the first class, or token, and zero.
        """
        form = self.form
        inputs = (
            torch.randint(form.vocabulary, (size, *form.input_shape))
            if form.vocabulary
            else torch.randn(size, *form.input_shape)
        )
        if form.targets == "numbers":
            return inputs, torch.zeros(size, form.outputs) if form.outputs > 1 else torch.zeros(size)
        shape = (size, *form.input_shape) if form.targets == "tokens" else (size,)
        return inputs, torch.zeros(shape, dtype=torch.int64)
