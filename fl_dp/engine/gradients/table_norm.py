"""Lengths of gradients that touch few rows of a large table: embeddings, without the table.

An example with T positions touches at most T rows. Where positions name the same row they are added
up first, in a table of T rows of the example's own: T * d additions, where the Gram matrix of the
positions takes T^2 * d, and no terms are left that could cancel.
"""

import torch
from torch import Tensor

from fl_dp.engine.gradients.example_chunks import example_chunks


def table_norm_squared(indices: Tensor, grads: Tensor) -> Tensor:
    """(N,) squared length of what each example adds to the table; in float32 at least.

    indices: (N, T) integers, the row of each position. grads: (N, T, d), what each position adds.
    Never too small where the parts of a row cancel. inf or NaN where an example's values are not
    finite, or their squares too large; no example's values reach another's norm.
    """
    dtype = torch.promote_types(grads.dtype, torch.float32)
    N, T, d = grads.shape
    chunks = example_chunks(N, T * d, dtype, grads.device)
    norms = [_norm_squared(indices[part], grads[part].to(dtype)) for part in chunks]
    return torch.cat(norms) if norms else torch.zeros(0, dtype=dtype, device=grads.device)


def _norm_squared(indices: Tensor, grads: Tensor) -> Tensor:
    """`table_norm_squared` of a few examples, the small tables of all of them at once.

    Positions of one row may be added in another order here than in the weighted sum. With m of them
    either sum is off by m eps / 2 times the sum of their lengths at most (Higham 2002, section
    4.2); twice that, over all rows, is added to the length. It is next to nothing unless the parts
    of a row cancel, which could otherwise come out as zero here and as a long gradient there.
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
    """(N, T) as indices: positions of one example and one row share a number, all others have their own.

    Example n's numbers are n T to n T + T - 1, so that one small table after the other takes them.
    """
    N, T = indices.shape
    ordered, order = indices.sort(1)
    steps = torch.zeros_like(order)
    steps[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rows = torch.empty_like(order).scatter_(1, order, steps.cumsum(1))
    first: Tensor = T * torch.arange(N, device=indices.device)[:, None]
    return rows + first
