"""Lengths of gradients that touch few rows of a large table (embeddings), found without the table.

An example with T positions touches at most T rows. Positions of the same row are first added up, in
a small table of T rows for each example. That takes T * d additions, where the Gram matrix of the
positions takes T^2 * d, and it leaves no terms that could cancel.
"""

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks
from fl_dp.engine.gradients.lengths import wide_type


def table_norm_squared(indices: Tensor, grads: Tensor) -> Tensor:
    """(N,) squared length of what each example adds to the table; in float32 at least.

    indices: (N, T) integers, the row of each position. grads: (N, T, d), what each position adds.
    The result is not too small where the parts of a row cancel. It is inf or NaN where an example's
    values are not finite, or their squares are too large. No example's values reach another's norm.
    """
    dtype = wide_type(grads.dtype)
    N, T, d = grads.shape
    chunks = example_chunks(N, T * d, dtype, grads.device)
    norms = [_norm_squared(indices[part], grads[part].to(dtype)) for part in chunks]
    return torch.cat(norms) if norms else torch.zeros(0, dtype=dtype, device=grads.device)


def _norm_squared(indices: Tensor, grads: Tensor) -> Tensor:
    """`table_norm_squared` of a few examples, the small tables of all of them at once.

    The weighted sum may add the m positions of a row in another order than this norm. Either sum is off
    by at most m eps / 2 times the sum of the positions' lengths (Higham 2002, section 4.2). Twice that,
    over all rows, is added to the length. This matters only where the parts of a row cancel: without
    it, the norm could be zero while the weighted sum adds a long gradient.
    """
    N, T, d = grads.shape
    rows = _compact(indices).flatten()
    tables = grads.new_zeros(N * T, d).index_add_(0, rows, grads.flatten(0, 1))
    positions = grads.new_zeros(N * T).index_add_(0, rows, grads.new_ones(N * T))[rows]  # m
    lengths = torch.linalg.vector_norm(grads, dim=2)
    error: Tensor = torch.finfo(grads.dtype).eps * (positions.view(N, T) * lengths).sum(1)
    norm = tables.view(N, T, d).square().sum(2).sum(1).sqrt()
    return (norm + error).square()


def _compact(indices: Tensor) -> Tensor:
    """(N, T) numbers of rows in the small tables: positions of one example and one row share a number.

    Example n has the numbers n T to n T + T - 1: the small tables stand one after the other.
    """
    N, T = indices.shape
    ordered, order = indices.sort(1)
    steps = torch.zeros_like(order)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rows = torch.empty_like(order).scatter_(1, order, steps.cumsum(1))
    first: Tensor = T * torch.arange(N, device=indices.device)[:, None]
    return rows + first
