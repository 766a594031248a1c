"""How the per-example gradients of one parameter lie in memory, and their norms and weighted sums.

A layout describes per-example gradients before they are computed. It computes two things, by one of
several kernels: the length of each example's gradient, and the weighted sum of the gradients over the
examples. "ghost" kernels compute both without ever holding a per-example gradient (Goodfellow 2015; Li
et al. 2021; Bu, Mao, Xu 2022, arXiv 2205.10683). "instantiate" kernels hold all of them at once.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.gram import gram_product
from fl_dp.engine.gradients.table_norm import table_norm_squared

Combine = Callable[..., Tensor]

_BLOCK = 1024
_WIDE = frozenset({torch.float32, torch.float64})
_FEW_POSITIONS = 16  # below, a product for each example takes longer than one in float64 for all


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


class GradientLayout(ABC):
    """The gradients of one parameter for N examples; `shape` is the parameter's."""

    shape: torch.Size

    @property
    @abstractmethod
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels; `keep` takes any of them."""

    @property
    @abstractmethod
    def positions(self) -> int:
        """T: how many outer products an example's gradient is the sum of."""

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

    @abstractmethod
    def first(self, num_examples: int) -> "GradientLayout":
        """The gradients of the first few examples alone."""

    @property
    @abstractmethod
    def signature(self) -> tuple[object, ...]:
        """What decides which kernel is cheapest: kind, sizes of one example, type, device.

        The number of examples is left out: it differs in every Poisson batch, and all kernels grow with it.
        """

    @property
    @abstractmethod
    def num_examples(self) -> int:
        """N."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the kernels run."""


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """float32 at least. Asking PyTorch takes as long as some of a small model's arithmetic."""
    return dtype if dtype in _WIDE else torch.promote_types(dtype, torch.float32)


def _flat(grads: Tensor) -> Tensor:
    """(N, P) from (N, ...), in the same memory if it can be."""
    return grads if grads.dim() == 2 else grads.reshape(grads.shape[0], math.prod(grads.shape[1:]))


def squared_lengths(grads: Tensor) -> Tensor:
    """(N,) sums of squares of gradients (N, ...), in float32 at least.

    PyTorch adds the squares of a row one after the other: of 2^28 equal numbers it finds 0.69 of the
    sum, so that a gradient that is too long would pass. Here rows are added in blocks, and the blocks'
    sums in float64. No number passes through more than 1024 additions in float32.
    """
    rows = _flat(grads)
    if rows.shape[1] <= _BLOCK:
        return _lengths(rows, 1, wide_type(rows.dtype)).square_()
    return squared_total(block_lengths(rows), (1,))


def block_lengths(rows: Tensor) -> Tensor:
    """(n, blocks) lengths, in float32 at least, of the blocks of `rows` (n, P): see `squared_lengths`."""
    dtype = wide_type(rows.dtype)
    n, P = rows.shape
    if P <= _BLOCK:
        return _lengths(rows, 1, dtype, keepdim=True)
    whole = P - P % _BLOCK
    lengths = _lengths(rows[:, :whole].view(n, -1, _BLOCK), 2, dtype)
    if whole == P:
        return lengths
    return torch.cat([lengths, _lengths(rows[:, whole:], 1, dtype, keepdim=True)], 1)


def _lengths(rows: Tensor, dim: int, dtype: torch.dtype, *, keepdim: bool = False) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=dim, dtype=dtype, keepdim=keepdim)
    return lengths


def squared_total(lengths: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Sums of squared lengths over `dims`, added in float64, in the type of `lengths`."""
    total: Tensor = torch.linalg.vector_norm(lengths, dim=dims, dtype=torch.float64)
    return total.square().to(lengths.dtype)


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
        total = torch.mv(_flat(grads).T, factors if factors.dtype == dtype else factors.to(dtype))
        return total if grads.dim() == 2 else total.view(grads.shape[1:])
    total = grads.new_zeros(grads.shape[1:], dtype=dtype)
    for part in example_chunks(grads.shape[0], grads[:1].numel(), dtype, grads.device):
        total += torch.tensordot(factors[part].to(dtype), grads[part].to(dtype), dims=1)
    return total


@dataclass(frozen=True, slots=True)
class Dense(GradientLayout):
    """Gradients that the rule has computed, because they are small: biases, scales, position embeddings."""

    grads: Tensor  # (N, *shape)

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        return self.grads.shape[1:]

    @property
    def signature(self) -> tuple[object, ...]:
        return ("dense",)

    @property
    def num_examples(self) -> int:
        return self.grads.shape[0]

    @property
    def device(self) -> torch.device:
        return self.grads.device

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("instantiate",)

    @property
    def positions(self) -> int:
        return 1

    @property
    def ghost_ratio(self) -> float:
        return math.inf

    def keep(self, kernel: str) -> Kept:
        return keep_instantiated(self.grads)

    def instantiate(self) -> Tensor:
        return self.grads

    def first(self, num_examples: int) -> "Dense":
        return Dense(self.grads[:num_examples])


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
    def num_examples(self) -> int:
        return self.left.shape[0]

    @property
    def device(self) -> torch.device:
        return self.left.device

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("ghost", "instantiate")

    @property
    def positions(self) -> int:
        return self.left.shape[1]

    @property
    def ghost_ratio(self) -> float:
        return 2 * self.left.shape[1] ** 2 / math.prod(self.shape)

    def keep(self, kernel: str) -> Kept:
        if kernel == "instantiate":
            return keep_instantiated(self.instantiate())
        return Kept(gram_product(self.left, self.right), (self.left, self.right), _combine_outer)

    def instantiate(self) -> Tensor:
        return torch.bmm(self.left.transpose(1, 2), self.right)

    def first(self, num_examples: int) -> "Outer":
        return Outer(self.left[:num_examples], self.right[:num_examples])

    @staticmethod
    def joined(layouts: "list[Outer]") -> "Outer":
        """Several uses of one matrix are one use with more positions: exact, cross terms included."""
        return Outer(
            torch.cat([one.left for one in layouts], 1), torch.cat([one.right for one in layouts], 1)
        )


def _combine_outer(factors: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The weighted sum over examples of left^T right.

    On CPUs an example's positions are added up by themselves, in a product of their own or in float64: where
    they cancel, one float32 product over all examples rounds by more than its result is long, and otherwise
    with one example more.
    """
    if left.device.type != "cpu" or left.shape[1] == 1 or left.dtype == torch.float64:
        return _in_one_product(factors, left, right)
    if left.shape[1] < _FEW_POSITIONS or left.dtype != torch.float32:
        total = _in_one_product(factors.double(), left.double(), right.double())
        return total.to(torch.promote_types(left.dtype, torch.float32))
    total = left.new_zeros(left.shape[2], right.shape[2])
    for factor, a, b in zip(factors.tolist(), left.mT, right, strict=True):
        total.addmm_(a, b, alpha=factor)
    return total


def _in_one_product(factors: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """A few examples at a time: the factor that is scaled is copied."""
    dtype = torch.promote_types(left.dtype, torch.float32)
    numbers = left.shape[1] * min(left.shape[2], right.shape[2])
    total: Tensor | None = None
    for part in example_chunks(left.shape[0], numbers, dtype, left.device):
        a, b = weighted_pair(factors[part], left[part], right[part])
        a, b = a.flatten(0, 1).T, b.flatten(0, 1)
        total = torch.mm(a, b) if total is None else total.addmm_(a, b)
    return left.new_zeros(left.shape[2], right.shape[2], dtype=dtype) if total is None else total


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
