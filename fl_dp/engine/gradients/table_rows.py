"""The layout of gradients that touch few rows of a large table: embeddings."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.kept import Kept, keep_instantiated, weighted_rows
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.gradients.lengths import squared_lengths, wide_type


@dataclass(frozen=True, slots=True)
class Rows(GradientLayout):
    """Gradients that touch few rows of a large table: embeddings.

    ghost: only the rows that an example touches are held. An example with T positions touches at most T.
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
    def rows(self) -> Tensor:
        return self.grads

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate")

    @property
    def positions(self) -> int:
        return self.grads.shape[1]

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate":
            return keep_instantiated(self.instantiate())
        rows, sums = joined_positions(self.indices, self.grads, self.num_rows)
        return Kept(_squared_lengths(sums), (rows, sums), self._combine)

    def _combine(self, factors: Tensor, rows: Tensor, sums: Tensor) -> Tensor:
        weighted = weighted_rows(factors, sums)
        table = weighted.new_zeros(self.shape)
        return add_rows(table, rows.flatten(), weighted.flatten(0, 1))

    def instantiate(self) -> Tensor:
        N, T, d = self.grads.shape
        tables = self.grads.new_zeros(N * self.num_rows, d)
        starts = self.num_rows * torch.arange(N, device=self.device)
        add_rows(tables, (self.indices + starts[:, None]).flatten(), self.grads.reshape(N * T, d))
        return tables.view(N, self.num_rows, d)

    def first(self, num_examples: int) -> "Rows":
        return Rows(self.indices[:num_examples], self.grads[:num_examples], self.num_rows)


def _squared_lengths(sums: Tensor) -> Tensor:
    """(N,) from (N, T, d): rows of zeros that pad it to a longer example change no bit."""
    N, T, d = sums.shape
    if T == 0:
        return sums.new_zeros(N)
    of_rows = squared_lengths(sums.view(N * T, d)).view(N, T)
    if sums.device.type == "cpu":  # row after row; on GPUs the order depends on the shape
        return of_rows.cumsum(1, dtype=torch.float64)[:, -1].to(sums.dtype)
    return added_by_halves(of_rows.double()).to(sums.dtype)


def added_by_halves(numbers: Tensor) -> Tensor:
    """(N,) sums of (N, T), T >= 1, in an order that no device chooses and zeros at the end do not change."""
    longer = (1 << (numbers.shape[1] - 1).bit_length()) - numbers.shape[1]
    numbers = torch.nn.functional.pad(numbers, (0, longer))
    while (half := numbers.shape[1] // 2) > 0:
        numbers = numbers[:, :half] + numbers[:, half:]
    return numbers[:, 0]


def add_rows(table: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    """Add rows (n, d) to the table's rows `places`, in place and in a fixed order.

    On GPUs `index_add_` has none. `index_put_` sorts first, and takes longer on CPUs.
    """
    if table.device.type == "cpu":
        return table.index_add_(0, places, rows)
    return table.index_put_((places,), rows, accumulate=True)


def joined_positions(indices: Tensor, grads: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """Each example's gradient as at most T different rows of the table: (N, T) and (N, T, d).

    indices: (N, T) integers, the row of each position. grads: (N, T, d), what each position adds. Positions
    of one row are added up, separately for each example; what is left over is a row of zeros. So the vector
    that is measured is the one that is added, and no other example's terms meet those that cancel in it.
    The zeros are spread over the table: GPUs add what belongs to one row one after the other.
    """
    N, T, d = grads.shape
    ordered, order = indices.sort(1)
    starts = torch.zeros_like(order)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    places = torch.empty_like(order).scatter_(1, order, starts.cumsum(1))
    every = torch.arange(N * T, device=indices.device).view(N, T)
    rows = (every % num_rows).to(indices.dtype).scatter_(1, places, indices)
    places += every[:, :1]  # all examples' rows one after the other
    sums = grads.new_zeros(N * T, d, dtype=wide_type(grads.dtype))
    add_rows(sums, places.flatten(), grads.flatten(0, 1).to(sums.dtype))
    return rows, sums.view(N, T, d)
