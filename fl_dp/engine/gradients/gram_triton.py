"""Ghost norms on NVIDIA GPUs by one fused Triton kernel: no tile of a Gram matrix leaves the chip.

One program computes a tile of both Gram matrices of one example, multiplies the two element by element
and stores the sum of the products, a single number. Without atomics the same input gives the same sum.
"""

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from fl_dp.engine.gradients.ghost_norm_bounds import least_square, product_lengths, rounded_up

# Positions on a side of a tile, and features at a time. Both tiles stay in registers. Not measured on a GPU.
_SIDE, _BLOCK = 64, 32


def gram_product_triton(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) float32, as `gram.gram_product`; left (N, T, p), right (N, T, d): float32, bfloat16 or float16.

    Strides may be anything. float32 is multiplied as float32, without tensor cores.
    """
    N, T, p = left.shape
    d = right.shape[2]
    tiles = triton.cdiv(T, _SIDE)
    sums = torch.zeros(N, tiles, tiles, dtype=torch.float32, device=left.device)
    if sums.numel() > 0:
        with torch.cuda.device_of(left):  # type: ignore[no-untyped-call]  # Triton launches on the current one
            _tile_sums[(sums.numel(),)](
                left,
                right,
                sums,
                T,
                p,
                d,
                tiles,
                *left.stride(),
                *right.stride(),
                side=_SIDE,
                block=_BLOCK,
                num_warps=8,
                enable_fp_fusion=True,
            )
    length = p + d + 2 * min(T, _SIDE) + 2 * tiles
    # Tensor cores truncate instead of rounding: each addition may be off by twice as much (Fasi et al. 2021).
    cuts = 1 if left.dtype == right.dtype == torch.float32 else 2
    terms = product_lengths(left, right)
    return rounded_up(sums.sum(2).sum(1), terms, cuts * length), least_square(terms, cuts * length)


@triton.jit  # type: ignore[untyped-decorator]
def _tile_sums(
    left: tl.tensor,
    right: tl.tensor,
    sums: tl.tensor,
    num_positions: tl.tensor,
    p: tl.tensor,
    d: tl.tensor,
    tiles: tl.tensor,
    left_n: tl.tensor,
    left_t: tl.tensor,
    left_c: tl.tensor,
    right_n: tl.tensor,
    right_t: tl.tensor,
    right_c: tl.tensor,
    side: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Store in sums[n, i, j] the sum of the tile (i, j) and its mirror image (j, i); nothing where j > i."""
    program = tl.program_id(0).to(tl.int64)
    n = program // (tiles * tiles)
    i = program // tiles % tiles
    j = program % tiles
    if j <= i:
        left_gram = _gram(left + n * left_n, i, j, num_positions, p, left_t, left_c, side, block)
        right_gram = _gram(right + n * right_n, i, j, num_positions, d, right_t, right_c, side, block)
        total = tl.sum(tl.sum(left_gram * right_gram, 1), 0)
        tl.store(sums + program, tl.where(i == j, total, 2 * total))


@triton.jit  # type: ignore[untyped-decorator]
def _gram(
    rows: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    num_positions: tl.tensor,
    width: tl.tensor,
    stride_t: tl.tensor,
    stride_c: tl.tensor,
    side: tl.constexpr,
    block: tl.constexpr,
) -> tl.tensor:
    """(side, side) inner products of the rows of block i with those of block j; zero beyond the last row."""
    t = i * side + tl.arange(0, side)[:, None]
    s = j * side + tl.arange(0, side)[None, :]
    gram = tl.zeros((side, side), tl.float32)
    start = 0
    while start < width:  # not `range`: the interpreter of Triton 3.6 cannot count to a run-time number
        c = (start + tl.arange(0, block)).to(tl.int64)  # times a stride it may exceed 32 bits
        rows_i = rows + t * stride_t + c[None, :] * stride_c
        rows_j = rows + s * stride_t + c[:, None] * stride_c
        a = tl.load(rows_i, mask=(t < num_positions) & (c[None, :] < width), other=0.0)
        b = tl.load(rows_j, mask=(s < num_positions) & (c[:, None] < width), other=0.0)
        gram = tl.dot(a, b, gram, input_precision="ieee")
        start += block
    return gram
