"""What is kept of one parameter's gradients between computing their lengths and their weighted sum."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.lengths import flat_rows, in_type, squared_lengths, wide_type
from fl_dp.engine.rounding import add_to, long_type
from fl_dp.engine.sum_error import Additions

Combine = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a kernel keeps of one parameter between its norm and its weighted sum.

    norm_squared: (N,) squared length of each example's gradient.
    parts: tensors whose first dimension is N; combine(factors, *parts) is the weighted sum, computed in the
    type of the factors if that is wider.
    positions: the number of outer products that a gradient is the sum of; 1 if gradients are instantiated.
    least: (N,) lower limits of the squared lengths in a secret order (`least_square`); None if gradients are
    instantiated.
    of_blocks: of_blocks(factors, *parts) adds up the weighted sums of B blocks of R examples, from factors
    (B, R) and parts (B, R, ...), each block's by products of its own; None if no way is faster than `combine`
    for each.
    """

    norm_squared: Tensor
    parts: tuple[Tensor, ...]
    combine: Combine
    positions: int = 1
    least: Tensor | None = None
    of_blocks: Combine | None = None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that is kept of each example."""
        own = (self.norm_squared, *self.parts)
        return own if self.least is None else (*own, self.least)

    def weighted_sum(
        self, factors: Tensor, additions: Additions, *, left_out: Tensor | None = None
    ) -> Tensor:
        """Sum over examples of factor times gradient, in the parameter's shape, in float32 at least.

        Call it without gradients and within `full_precision`: the gradients that are added must be those
        whose lengths were measured.

        factors: (N,), N >= 1. left_out: (N,) booleans: examples that are zeroed, as they may hold inf or NaN,
        and zero times inf is not zero; None if there are none. Every block is formed in full, whatever is
        left out: so its bits depend on its own examples alone, and on its place.
        """
        together = additions.rows * additions.together
        if additions.wide:
            factors = factors.double()
        total: Tensor | None = None
        for start in range(0, len(factors), together):
            found = self._added(slice(start, start + together), additions, factors, left_out)
            if total is None:
                total = found
            else:
                total = total.to(long_type(total))
                add_to(total, found)
        assert total is not None
        return total

    def _added(self, part: slice, additions: Additions, factors: Tensor, left_out: Tensor | None) -> Tensor:
        """The sum of these examples, in the type of their blocks."""
        at_once = 1 if self.of_blocks is None else additions.at_once
        inputs = [factors[part], *self._parts(part, left_out)]
        total: Tensor | None = None
        for few in zip(*(torch.split(one, additions.rows * at_once) for one in inputs), strict=True):
            found = self._few_blocks(few, additions.rows)
            total = found if total is None else total.add_(found)
        assert total is not None
        return total

    def _few_blocks(self, inputs: tuple[Tensor, ...], rows: int) -> Tensor:
        """The sum of a few blocks, of which the last one may be shorter."""
        N = len(inputs[0])
        if self.of_blocks is None or rows >= N:
            return self.combine(*inputs)
        whole = N - N % rows
        total = self.of_blocks(*(torch.unflatten(one[:whole], 0, (-1, rows)) for one in inputs))
        return total if whole == N else total.add_(self.combine(*(one[whole:] for one in inputs)))

    def _parts(self, part: slice, left_out: Tensor | None) -> list[Tensor]:
        """Those of some examples, with zeros for those that are left out."""
        parts = [one[part] for one in self.parts]
        if left_out is None or (host_reads(left_out) and not left_out[part].any()):
            return parts
        return [one.masked_fill(left_out[part].view(-1, *(1,) * (one.dim() - 1)), 0) for one in parts]


def host_reads(tensor: Tensor) -> bool:
    """Whether the host can read it cheaply. From a GPU it would first wait for all queued work."""
    return tensor.device.type == "cpu"


def sum_type(factors: Tensor, rows: Tensor) -> torch.dtype:
    """Type of the sum of `rows` times `factors`: float32 at least, float64 if the factors are."""
    dtype = wide_type(rows.dtype)
    return dtype if factors.dtype == dtype else torch.promote_types(factors.dtype, dtype)


def weighted_rows(factors: Tensor, rows: Tensor) -> Tensor:
    """`rows`, whose first dimensions are those of `factors`, times these, in their `sum_type`."""
    dtype = sum_type(factors, rows)
    shape = *factors.shape, *(1,) * (rows.dim() - factors.dim())
    return in_type(rows, dtype) * in_type(factors, dtype).view(shape)


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
