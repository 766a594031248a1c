"""What is kept of one parameter's gradients between their lengths and their weighted sum."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.lengths import flat_rows, squared_lengths, wide_type

Combine = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a kernel keeps of one parameter between its norm and its weighted sum.

    norm_squared: (N,) squared length of each example's gradient.
    parts: tensors whose first dimension is N; combine(factors, *parts) is the weighted sum.
    """

    norm_squared: Tensor
    parts: tuple[Tensor, ...]
    combine: Combine

    def weighted_sum(self, factors: Tensor, rows: Tensor | slice | None) -> Tensor:
        """Sum over examples of factor times gradient, in the parameter's shape.

        Call without gradients and within `full_precision`: the gradients that are added must be those
        whose lengths were measured. factors: (N,). rows: the examples that take part, by index or slice,
        or None for all. An example that is left out is never multiplied, as it may hold inf or NaN, and
        zero times inf is not zero.
        """
        if rows is not None:
            factors = factors[rows]
        parts = self.parts if rows is None else [part[rows] for part in self.parts]
        return self.combine(factors, *parts)


def weighted_rows(factors: Tensor, rows: Tensor) -> Tensor:
    """`rows` (N, ...) with each example's part times its factor, in float32 at least."""
    dtype = wide_type(rows.dtype)
    factors = factors if factors.dtype == dtype else factors.to(dtype)
    return rows * factors.view(-1, *(1,) * (rows.dim() - 1))


def weighted_pair(factors: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """`left` and `right` with the factors multiplied into the smaller of the two, which costs least.

    Their product is linear in each, so either may be scaled. Both results are in one type, float32 at
    least.
    """
    if left.numel() <= right.numel():
        left = weighted_rows(factors, left)
        return left, right.to(left.dtype)
    right = weighted_rows(factors, right)
    return left.to(right.dtype), right


def keep_instantiated(grads: Tensor) -> Kept:
    return Kept(squared_lengths(grads), (grads,), combine_instantiated)


def combine_instantiated(factors: Tensor, grads: Tensor) -> Tensor:
    """Sum over examples of factor times gradient (N, ...), in float32 at least."""
    dtype = wide_type(grads.dtype)
    if grads.dtype == dtype:
        total = torch.mv(flat_rows(grads).T, factors if factors.dtype == dtype else factors.to(dtype))
        return total if grads.dim() == 2 else total.view(grads.shape[1:])
    total = grads.new_zeros(grads.shape[1:], dtype=dtype)
    for part in example_chunks(grads.shape[0], grads[:1].numel(), dtype, grads.device):
        total += torch.tensordot(factors[part].to(dtype), grads[part].to(dtype), dims=1)
    return total
