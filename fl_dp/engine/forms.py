"""What a per-example gradient of one parameter looks like, before anyone computes it.

A form answers two questions in one of several ways (kernels): how long is each example's gradient,
and what is the weighted sum of the gradients over the examples. "ghost" kernels answer both
without ever holding a per-example gradient (Goodfellow 2015; Li et al. 2021; Bu, Mao, Xu 2022,
arXiv 2205.10683); "instantiate" kernels hold all of them at once.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Combine = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a kernel keeps of one parameter between its norm and its weighted sum (book-keeping).

    norm_squared: (N,) squared length of each example's gradient.
    parts: tensors whose first dimension is N; combine(factors, *parts) is the weighted sum.
    """

    norm_squared: Tensor
    parts: tuple[Tensor, ...]
    combine: Combine

    @torch.no_grad()
    def weighted_sum(self, factors: Tensor, rows: Tensor | None) -> Tensor:
        """Sum over examples of factor times gradient, in the parameter's shape.

        factors: (N,). rows: indices of the examples that take part, or None for all. An example
        that is left out may hold inf or NaN: zero times inf is not zero, so it is never multiplied.
        """
        if rows is None:
            return self.combine(factors, *self.parts)
        return self.combine(factors[rows], *(part[rows] for part in self.parts))


class Form(ABC):
    """The gradients of one parameter for N examples; `shape` is the parameter's."""

    shape: torch.Size

    @property
    @abstractmethod
    def kernels(self) -> tuple[str, ...]:
        """Names of the ways to answer; `keep` takes any of them."""

    @property
    @abstractmethod
    def ghost_ratio(self) -> float:
        """Numbers that a ghost norm holds over numbers that instantiation holds: 2 T^2 / (p d)."""

    @abstractmethod
    def keep(self, kernel: str) -> Kept:
        """Compute the norms by `kernel` and keep what the weighted sum will need."""

    @abstractmethod
    def instantiate(self) -> Tensor:
        """All per-example gradients, (N, *shape)."""

    @property
    @abstractmethod
    def signature(self) -> tuple[object, ...]:
        """What decides which kernel is cheapest: kind, sizes of one example, type, device.

        Not the number of examples: it differs in every Poisson batch, and all kernels grow with it.
        """

    @property
    @abstractmethod
    def num_examples(self) -> int:
        """N."""


def keep_instantiated(grads: Tensor) -> Kept:
    norm_squared = grads.flatten(1).pow(2).sum(1)
    return Kept(norm_squared, (grads,), _combine_instantiated)


def _combine_instantiated(factors: Tensor, grads: Tensor) -> Tensor:
    total: Tensor = torch.tensordot(factors.to(grads.dtype), grads, dims=1)
    return total


@dataclass(frozen=True, slots=True)
class Dense(Form):
    """Gradients that are small enough to be there already: biases, scales, embeddings of position."""

    grads: Tensor  # (N, *shape)

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        return self.grads.shape[1:]

    @property
    def signature(self) -> tuple[object, ...]:
        return ("dense",)

    @property
    def num_examples(self) -> int:
        return len(self.grads)

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("instantiate",)

    @property
    def ghost_ratio(self) -> float:
        return math.inf

    def keep(self, kernel: str) -> Kept:
        return keep_instantiated(self.grads)

    def instantiate(self) -> Tensor:
        return self.grads


@dataclass(frozen=True, slots=True)
class Outer(Form):
    """Gradients that are sums over positions of outer products: every matrix product.

    ghost: <G, G> = sum over positions t, s of (left_t . left_s)(right_t . right_s); 2 T^2 numbers
    an example in place of p * d.
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
    def num_examples(self) -> int:
        return len(self.left)

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate")

    @property
    def ghost_ratio(self) -> float:
        return 2 * self.left.shape[1] ** 2 / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate":
            return keep_instantiated(self.instantiate())
        return Kept(gram_product(self.left, self.right), (self.left, self.right), _combine_outer)

    def instantiate(self) -> Tensor:
        return torch.bmm(self.left.transpose(1, 2), self.right)

    @staticmethod
    def joined(forms: "list[Outer]") -> "Outer":
        """Several uses of one matrix are one use with more positions: exact, cross terms included."""
        return Outer(torch.cat([f.left for f in forms], 1), torch.cat([f.right for f in forms], 1))


def _combine_outer(factors: Tensor, left: Tensor, right: Tensor) -> Tensor:
    weighted = left * factors.to(left.dtype)[:, None, None]
    return weighted.flatten(0, 1).T @ right.flatten(0, 1)


def gram_product(left: Tensor, right: Tensor) -> Tensor:
    """(N,) sum over t, s of (left_t . left_s)(right_t . right_s), rounded up.

    Where an example's terms cancel, rounding could hide the length of its gradient altogether, so
    that it would pass unclipped. The error of the sum is at most about (p + d + 2 T) eps
    (sum_t |left_t| |right_t|)^2 (Higham 2002, section 3.1); that much is added.
    """
    if left.shape[1] == 1:
        return left.flatten(1).pow(2).sum(1) * right.flatten(1).pow(2).sum(1)
    left_gram = torch.bmm(left, left.transpose(1, 2))
    right_gram = torch.bmm(right, right.transpose(1, 2))
    norm_squared = (left_gram * right_gram).sum((1, 2))
    terms = (left_gram.diagonal(0, 1, 2) * right_gram.diagonal(0, 1, 2)).sqrt()  # (N, T)
    _, T, p = left.shape
    return norm_squared + _rounding(terms, p + right.shape[2] + 2 * T)


def _rounding(terms: Tensor, length: int) -> Tensor:
    """Bound on the rounding error of a sum of products of `terms` (N, T), twice over."""
    return length * torch.finfo(terms.dtype).eps * terms.sum(1).square()


@dataclass(frozen=True, slots=True)
class Rows(Form):
    """Gradients that touch few rows of a large table: embeddings.

    The ghost norm needs only which positions of an example name the same row.
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
        return len(self.grads)

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate")

    @property
    def ghost_ratio(self) -> float:
        return 2 * self.grads.shape[1] ** 2 / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate":
            return keep_instantiated(self.instantiate())
        same_row = self.indices[:, :, None] == self.indices[:, None, :]
        gram = torch.bmm(self.grads, self.grads.transpose(1, 2))
        # where, not times: a zero must stay zero beside an infinite neighbour
        norm_squared = torch.where(same_row, gram, 0).sum((1, 2))
        norms = gram.diagonal(0, 1, 2).sqrt()  # (N, T)
        norm_squared += _rounding(norms, sum(self.grads.shape[1:]))
        return Kept(norm_squared, (self.indices, self.grads), self._combine)

    def _combine(self, factors: Tensor, indices: Tensor, grads: Tensor) -> Tensor:
        table = grads.new_zeros(self.shape)
        weighted = grads * factors.to(grads.dtype)[:, None, None]
        return table.index_add_(0, indices.flatten(), weighted.flatten(0, 1))

    def instantiate(self) -> Tensor:
        N, T, d = self.grads.shape
        tables = self.grads.new_zeros(N, self.num_rows, d)
        return tables.scatter_add_(1, self.indices[:, :, None].expand(N, T, d), self.grads)
