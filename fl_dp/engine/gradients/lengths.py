"""Squared lengths of instantiated gradients, added up so that none comes out too short."""

import math

import torch
from torch import Tensor

_BLOCK = 1024
_WIDE = frozenset({torch.float32, torch.float64})


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """float32 at least. Asking PyTorch takes as long as some of a small model's arithmetic."""
    return dtype if dtype in _WIDE else torch.promote_types(dtype, torch.float32)


def in_type(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor` as `dtype`. An unnecessary `to` takes longer than most of a small model's arithmetic."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def flat_rows(grads: Tensor) -> Tensor:
    """(N, P) from (N, ...), in the same memory if possible."""
    return grads if grads.dim() == 2 else grads.reshape(grads.shape[0], math.prod(grads.shape[1:]))


def squared_lengths(grads: Tensor) -> Tensor:
    """(N,) sums of squares of gradients (N, ...), in float32 at least.

    PyTorch adds the squares of a row one after the other. Of 2^28 equal numbers it finds only 0.69 of the
    sum, so a gradient that is too long would pass. Here rows are added in blocks, and the blocks' sums in
    float64. No number passes through more than 1024 additions in float32.
    """
    rows = flat_rows(grads)
    dtype, (n, P) = wide_type(rows.dtype), rows.shape
    if P <= _BLOCK:
        return _lengths(rows, 1, dtype).square_()
    whole = P - P % _BLOCK
    blocks = _lengths(rows[:, :whole].view(n, -1, _BLOCK), 2, dtype)
    if whole < P:
        blocks = torch.cat([blocks, _lengths(rows[:, whole:], 1, dtype)[:, None]], 1)
    return _lengths(blocks, 1, torch.float64).square().to(blocks.dtype)


def _lengths(rows: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=dim, dtype=dtype)
    return lengths
