"""What is kept of one parameter's gradients between computing their lengths and their weighted sum."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.lengths import flat_rows, in_type, squared_lengths, wide_type
from fl_dp.engine.rounding import add_to, long_type
from fl_dp.engine.sum_error import ROWS, positions_at_once

Combine = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a kernel keeps of one parameter between its norm and its weighted sum.

    norm_squared: (N,) squared length of each example's gradient.
    parts: tensors whose first dimension is N; combine(factors, *parts) is the weighted sum, computed in the
    type of the factors if that is wider.
    positions: the number of outer products that a gradient is the sum of, if it is not there itself; else 1.
    """

    norm_squared: Tensor
    parts: tuple[Tensor, ...]
    combine: Combine
    positions: int = 1

    def without(self, left_out: Tensor) -> "Kept":
        """The same with zeros in all parts of the examples that are left out: (N,) booleans, on any device.

        As these may hold inf or NaN, a factor of zero would not do.
        """
        return replace(self, parts=tuple(_zeroed(part, left_out) for part in self.parts))

    def weighted_sum(
        self, factors: Tensor, rows: Tensor | slice | None, *, float32_rows: int = ROWS[-1]
    ) -> Tensor:
        """Sum over examples of factor times gradient, in the parameter's shape, in float32 at least.

        Call it without gradients and within `full_precision`: the gradients that are added must be those
        whose lengths were measured. factors: (N,). rows: the examples that take part, by index or slice, or
        None for all. An example that is left out is never multiplied, as it may hold inf or NaN, and zero
        times inf is not zero. float32_rows: how many vectors are added in float32, none if 0; blocks, and
        terms that may cancel, are added in float64 (`sum_error.py`).
        """
        if rows is not None:
            factors = factors[rows]
        are_vectors = self.positions == 1
        if not (are_vectors and float32_rows):
            factors = factors.double()
        parts = self.parts if rows is None else [part[rows] for part in self.parts]
        at_once = positions_at_once(self.positions) // self.positions
        size = (float32_rows or ROWS[0]) if are_vectors else at_once
        if len(factors) <= size:
            return self.combine(factors, *parts)
        first, *others = zip(*(torch.split(one, size) for one in (factors, *parts)), strict=True)
        total = self.combine(*first)
        total = total.to(long_type(total))
        for block in others:
            add_to(total, self.combine(*block))
        return total


def _zeroed(part: Tensor, examples: Tensor) -> Tensor:
    return part.masked_fill(examples.view(-1, *(1,) * (part.dim() - 1)), 0)


def sum_type(factors: Tensor, rows: Tensor) -> torch.dtype:
    """Type of the sum of `rows` times `factors`: float32 at least, float64 if the factors are."""
    dtype = wide_type(rows.dtype)
    return dtype if factors.dtype == dtype else torch.promote_types(factors.dtype, dtype)


def weighted_rows(factors: Tensor, rows: Tensor) -> Tensor:
    """`rows` (N, ...) with each example's part times its factor, in their `sum_type`."""
    dtype = sum_type(factors, rows)
    return in_type(rows, dtype) * in_type(factors, dtype).view(-1, *(1,) * (rows.dim() - 1))


class Copies:
    """Examples converted or scaled, a few at a time, always in the same memory.

    New memory for each few would cost up to half of the product's time, because the system clears it.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._memory: Tensor | None = None

    def of(self, rows: Tensor, factors: Tensor | None = None) -> Tensor:
        """`rows` (n, ...) in the type, times the factors (n,); valid until the next call. No later call may
        have more rows than the first.
        """
        if factors is None and rows.dtype == self._dtype:
            return rows
        if self._memory is None:
            self._memory = torch.empty(rows.shape, dtype=self._dtype, device=rows.device)
        copy = self._memory[: len(rows)].copy_(rows)
        return copy if factors is None else copy.mul_(factors.view(-1, *(1,) * (rows.dim() - 1)))


def keep_instantiated(grads: Tensor) -> Kept:
    return Kept(squared_lengths(grads), (grads,), combine_instantiated)


def combine_instantiated(factors: Tensor, grads: Tensor) -> Tensor:
    """Sum over examples of factor times gradient (N, ...), in their `sum_type`."""
    dtype = sum_type(factors, grads)
    if grads.dtype == dtype:
        total = torch.mv(flat_rows(grads).T, in_type(factors, dtype))
        return total if grads.dim() == 2 else total.view(grads.shape[1:])
    total = grads.new_zeros(grads.shape[1:], dtype=dtype)
    for part in example_chunks(grads.shape[0], grads[:1].numel(), dtype, grads.device):
        total += torch.tensordot(factors[part].to(dtype), grads[part].to(dtype), dims=1)
    return total
