"""How much rounding and underflow may take off a ghost norm; this is added so that none is too small.

A ghost norm adds up products of inner products (gram.py). If an example's terms cancel, rounding could hide
the length of its gradient altogether, and the gradient would pass unclipped. So every ghost norm is increased
by its error bound. This also limits how much longer than the gradient its terms can be, on which the rounding
of the clipped sum depends (docs/rounding.md).

For examples in a secret order the limit is far tighter: clipping takes no squared length below
`least_square`, a quarter of the sum of squared terms. Terms in random directions give a gradient of about
four times that. An example is scaled down more than its gradient requires only if its terms cancel.
"""

import torch
from torch import Tensor

from fl_dp.engine.gradients.lengths import wide_type
from fl_dp.engine.sum_error import KAPPA


def rounded_up(total: Tensor, terms: Tensor, length: int) -> Tensor:
    """(N,) `total`, a sum over t, s of (left_t . left_s)(right_t . right_s), increased to be large enough.

    Its root is then neither below the length of the gradient, nor below 0.999 sqrt(length eps / 2) of all
    terms together. On tiles of 128 (Triton: 64) length >= 2 + 2 min(T, tile) + 2 ceil(T / tile), by shifts
    2 T + 3. So it is at least 7, which leaves a 2^11-th of all terms, and 138 for more than 256 positions: a
    KAPPA-th. Tensor cores that truncate count twice in length.

    terms: (N, T), |left_t| |right_t|. length: operations that any one elementary product passes
    through: the p + d of its two inner products and the additions after them. By Cauchy and Schwarz
    the magnitudes of all products add up to at most (sum_t |left_t| |right_t|)^2. The error is
    therefore at most length * eps / 2 times that, to first order and in any order of summation
    (Higham 2002, sections 3.1 and 4.2). Twice that is added: it also covers the higher orders and the
    error of the bound itself, for lengths and T up to a million in float32.

    At least twice what the sum may have lost is added, so that length eps / 2 (sum of terms)^2 remains.
    float64 is so much finer that a gradient could be shorter. T^2 products may underflow, each by the
    smallest normal number at most.
    """
    all_terms = terms.sum(1)
    if terms.dtype == torch.float64:
        total = total.maximum((all_terms / KAPPA).square())
    info = torch.finfo(terms.dtype)
    return total + (length * info.eps * all_terms.square() + terms.shape[1] ** 2 * info.tiny)


def least_square(terms: Tensor, length: int) -> Tensor:
    """(N,) a quarter of the sum of squared terms (N, T), increased by its own rounding.

    By Cauchy and Schwarz, all terms are together at most 2 sqrt(T) times its root. length: of `rounded_up`.
    """
    more = (length + terms.shape[1]) * torch.finfo(terms.dtype).eps
    return terms.square().sum(1) * ((1 + more) / 4)


def product_lengths(left: Tensor, right: Tensor) -> Tensor:
    """(N, T) |left_t| |right_t|, never too small by underflow: the terms of `rounded_up`."""
    dtype = sum_dtype(left, right)
    return row_squares(left, dtype).sqrt() * row_squares(right, dtype).sqrt()


def row_squares(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """(...) squared lengths of rows (..., c), never too small by underflow."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=dtype)
    return lengths.square() + _lost(rows.shape[-1], dtype)


def row_lengths(gram: Tensor, num_features: int) -> Tensor:
    """(n, t) lengths of rows from the diagonal of their Gram matrix, never too small by underflow."""
    return (gram.diagonal(0, 1, 2) + _lost(num_features, gram.dtype)).sqrt()


def sum_dtype(left: Tensor, right: Tensor) -> torch.dtype:
    """The type in which products are added: at least float32, which holds half-precision products exactly."""
    return wide_type(torch.promote_types(left.dtype, right.dtype))


def _lost(num_features: int, dtype: torch.dtype) -> float:
    """What underflow may take off a sum of `num_features` squares, divided by eps.

    A tiny row times a huge one need not be short, yet all squares of the tiny one may be zero. In this way an
    example could hide a long gradient. So each squared length is increased by what underflow may take off it,
    divided by eps. `rounded_up` multiplies by eps and so makes up for the loss, even if numbers below the
    smallest normal one are flushed to zero. Rows become longer by 3e-16 * sqrt(num_features) in float32.
    """
    info = torch.finfo(dtype)
    return num_features * info.tiny / info.eps
