"""The layout of gradients that are sums of outer products: those of every matrix product."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.gram import gram_product
from fl_dp.engine.gradients.kept import Copies, Kept, keep_instantiated, sum_type, weighted_rows
from fl_dp.engine.gradients.layouts import GradientLayout
from fl_dp.engine.sum_error import MOST_POSITIONS


@dataclass(frozen=True, slots=True)
class Outer(GradientLayout):
    """Gradients that are sums of outer products over positions: those of every matrix product.

    ghost: <G, G> = sum over positions t, s of (left_t . left_s)(right_t . right_s), which takes 2 T^2
    numbers for each example instead of p * d.
    """

    left: Tensor  # (N, T, p) output gradients
    right: Tensor  # (N, T, d) inputs

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        return torch.Size((self.left.shape[2], self.right.shape[2]))

    @property
    def signature(self) -> tuple[object, ...]:
        return ("outer", self.left.shape[1:], self.right.shape[1:], self.left.dtype, self.left.device)

    @property
    def rows(self) -> Tensor:
        return self.left

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate") if self.positions <= MOST_POSITIONS else ("instantiate",)

    @property
    def positions(self) -> int:
        return self.left.shape[1]

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate":
            return keep_instantiated(self.instantiate())
        norm_squared, least = gram_product(self.left, self.right)
        parts = self.left, self.right
        return Kept(norm_squared, parts, _combine_outer, self.positions, least, _outer_of_blocks)

    def instantiate(self) -> Tensor:
        return torch.bmm(self.left.transpose(1, 2), self.right)

    def first(self, num_examples: int) -> "Outer":
        return Outer(self.left[:num_examples], self.right[:num_examples])

    @staticmethod
    def joined(layouts: "list[Outer]") -> "Outer":
        """Several uses of one matrix as one use with more positions: exact, cross terms included."""
        return Outer(
            torch.cat([one.left for one in layouts], 1), torch.cat([one.right for one in layouts], 1)
        )


def _combine_outer(factors: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The weighted sum over examples of left^T right: one product, of a few examples at a time.

    It is linear in both, so the factors are multiplied into the smaller one.
    """
    dtype, total = sum_type(factors, left), None
    numbers, of_left = left.shape[1] * min(left.shape[2], right.shape[2]), left.numel() <= right.numel()
    lefts, rights = Copies(dtype), Copies(dtype)
    for part in example_chunks(left.shape[0], numbers, dtype, left.device):
        a = lefts.of(left[part], factors[part] if of_left else None).flatten(0, 1).T
        b = rights.of(right[part], None if of_left else factors[part]).flatten(0, 1)
        total = torch.mm(a, b) if total is None else total.addmm_(a, b)
    assert total is not None  # there is one example at least
    return total


def _outer_of_blocks(factors: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """(p, d): the weighted sums of blocks (B, R, T, ...), each by one product, added up."""
    dtype = sum_type(factors, left)
    if left.numel() <= right.numel():
        left = weighted_rows(factors, left)
    else:
        right = weighted_rows(factors, right)
    return torch.bmm(left.flatten(1, 2).transpose(1, 2).to(dtype), right.flatten(1, 2).to(dtype)).sum(0)
