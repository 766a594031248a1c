"""The layout of gradients that touch few rows of a large table: embeddings."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.kept import Kept, keep_instantiated, weighted_rows
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.table_norm import table_norm_squared


@dataclass(frozen=True, slots=True)
class Rows(GradientLayout):
    """Gradients that touch few rows of a large table: embeddings.

    The ghost norm adds up only the rows that an example touches.
    """

    indices: Tensor  # (N, T) int64; row of each position
    grads: Tensor  # (N, T, d); zero where a position does not count (padding)
    num_rows: int

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        return torch.Size((self.num_rows, self.grads.shape[2]))

    @property
    def signature(self) -> tuple[object, ...]:
        return ("rows", self.grads.shape[1:], self.num_rows, self.grads.dtype, self.grads.device)

    @property
    def num_examples(self) -> int:
        return self.grads.shape[0]

    @property
    def device(self) -> torch.device:
        return self.grads.device

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate")

    @property
    def positions(self) -> int:
        return self.grads.shape[1]

    @property
    def ghost_ratio(self) -> float:
        return 2 * self.grads.shape[1] ** 2 / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate":
            return keep_instantiated(self.instantiate())
        norm_squared = table_norm_squared(self.indices, self.grads)
        return Kept(norm_squared, (self.indices, self.grads), self._combine)

    def _combine(self, factors: Tensor, indices: Tensor, grads: Tensor) -> Tensor:
        weighted = weighted_rows(factors, grads)
        table = weighted.new_zeros(self.shape)
        return table.index_add_(0, indices.flatten(), weighted.flatten(0, 1))

    def instantiate(self) -> Tensor:
        N, T, d = self.grads.shape
        tables = self.grads.new_zeros(N, self.num_rows, d)
        return tables.scatter_add_(1, self.indices[:, :, None].expand(N, T, d), self.grads)

    def first(self, num_examples: int) -> "Rows":
        return Rows(self.indices[:num_examples], self.grads[:num_examples], self.num_rows)
