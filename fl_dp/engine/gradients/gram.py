"""Ghost norms: lengths of sums of outer products, from inner products alone, tile by tile.

|sum over t of left_t right_t^T|^2 = sum over t, s of (left_t . left_s)(right_t . right_s). That takes
two T x T Gram matrices, which are never held whole. A tile is the part of both where t and s run over
two blocks of positions. The matrices are symmetric: tiles left of the diagonal count twice, and tiles
right of it are never computed. ghost_norm_bounds.py says how much the sum is rounded up.
"""

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.ghost_norm_bounds import (
    least_square,
    rounded_up,
    row_lengths,
    row_squares,
    sum_dtype,
)
from fl_dp.engine.precision import full_precision
from fl_dp.engine.triton_support import has_triton

# Positions on a side of a tile. On CPUs a tile fits the cache (measured on one core). On GPUs it matters more
# that there are few launches (not measured).
_CPU_TILE, _GPU_TILE = 128, 512


def gram_product(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) sum over t, s of (left_t . left_s)(right_t . right_s), rounded up; float32 at least. And (N,)
    `least_square`.

    left: (N, T, p). right: (N, T, d). Whatever the values, and whatever precision the user allows, the result
    is never less than the true sum, except for what lies below T^2 times the smallest normal number (a length
    of T * 1e-19 in float32). Nor is its root less than a KAPPA-th of all terms (`rounded_up`). It is inf or
    NaN if an example's values are not finite, or their squares are too large. No example's values reach
    another's sum.
    """
    if left.shape[1] == 1:
        single = _single_products(left.squeeze(1), right.squeeze(1))
        return single, single
    if _fits_triton(left, right):
        from fl_dp.engine.gradients.gram_triton import gram_product_triton  # late: few machines have it

        return gram_product_triton(left, right)
    dtype = sum_dtype(left, right)
    tile = min(_CPU_TILE if left.device.type == "cpu" else _GPU_TILE, left.shape[1])
    copied = sum(rows.shape[2] for rows in (left, right) if rows.dtype != dtype)
    chunks = example_chunks(len(left), 2 * tile * (tile + copied), dtype, left.device)
    with full_precision(left.device):
        found = [_tiled(left[part], right[part], tile, dtype) for part in chunks]
    if not found:
        nothing = torch.zeros(0, dtype=dtype, device=left.device)
        return nothing, nothing
    sums, squares = zip(*found, strict=True)
    return torch.cat(sums), torch.cat(squares)


def _single_products(left: Tensor, right: Tensor) -> Tensor:
    """`gram_product` of one position: left (N, p), right (N, d). `rounded_up` with one term."""
    dtype = sum_dtype(left, right)
    up = 1 + (left.shape[1] + right.shape[1] + 4) * torch.finfo(dtype).eps
    return row_squares(left, dtype) * row_squares(right, dtype) * up


def _tiled(left: Tensor, right: Tensor, tile: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`gram_product` of a few examples, the two tiles of all of them at once."""
    blocks = list(zip(torch.split(left, tile, 1), torch.split(right, tile, 1), strict=True))
    terms, sums = [], []
    for i, (left_i, right_i) in enumerate(blocks):
        a, b = left_i.to(dtype), right_i.to(dtype)
        beside = [2 * inner_products(_gram(a, x.to(dtype)), _gram(b, y.to(dtype))) for x, y in blocks[:i]]
        left_gram, right_gram = _gram(a, a), _gram(b, b)
        terms.append(row_lengths(left_gram, a.shape[2]) * row_lengths(right_gram, b.shape[2]))
        sums.append(sum(beside, start=inner_products(left_gram, right_gram)))
    # The additions that a product passes through: those of its tile, of its row of tiles, of all rows.
    length = left.shape[2] + right.shape[2] + 2 * tile + 2 * len(blocks)
    lengths = torch.cat(terms, 1)
    return rounded_up(sum(sums[1:], start=sums[0]), lengths, length), least_square(lengths, length)


def _gram(a: Tensor, b: Tensor) -> Tensor:
    """(n, t, s) inner products of rows: a (n, t, c), b (n, s, c)."""
    return torch.bmm(a, b.transpose(1, 2))


def inner_products(a: Tensor, b: Tensor) -> Tensor:
    """(n,) sums of the elements of a * b, (n, t, s) each; overwrites a.

    Columns first, then the rest: no element passes through more than t + s additions, in whatever order
    each of the two sums is taken.
    """
    return a.mul_(b).sum(1).sum(1)


def _fits_triton(left: Tensor, right: Tensor) -> bool:
    return left.is_cuda and sum_dtype(left, right) == torch.float32 and has_triton(left.device)
