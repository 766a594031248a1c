"""How far rounding can move a clipped sum, by theorem and from public numbers alone.

B is the largest number of examples that a logical batch may hold, C the clipping bound. Every example
contributes a vector of length C at most, which follows from the example itself. One example more or less
moves the computed sum by at most C (1 + error). Proofs: docs/rounding.md.

A vector that is instantiated, or is one outer product, is as long as its terms. A sum of T outer products of
which only the ghost norm is known has terms that may cancel (`gradients/ghost_norm_bounds.py`).

- In any order (`sum_error`) all sums err. Vectors are added R at a time in float32 (`float32_rows`), blocks
  of them in float64. The terms of outer products may be K times as long as the gradient together, so they are
  added in float64, at most P for each number, K P <= 2^23 (`positions_at_once`).
- In an order that is uniformly random and secret (`ORDERED_ERROR`) all blocks but two have the same bits with
  and without the example. So short blocks may be added in float32, if terms are together at most 2 sqrt(T) C
  long (`additions`).
"""

import functools
import math
from dataclasses import dataclass

ROWS = (128, 64, 32)  # vectors that are added in float32: the first of these whose error is small enough
SHORT = 256  # positions up to which K is 2^11; beyond, it is KAPPA
KAPPA = 2**9
MOST_POSITIONS = 2**14  # of an example: with more it has no ghost norm
MOST_IN_FLOAT32 = 1024  # examples of a logical batch
MOST_ERROR = 0.01  # of the sensitivity: the error of any logical batch that clients accept
ORDERED_ERROR = 0.005  # of the sensitivity, in a secret order, for up to 2^20 expected examples

_BLOCK_ERROR = 0.002  # 4 R (R T + 3) 2 sqrt(T) u is at most this, for every layer
_MOST_OF_BLOCK = 64  # examples of a block
_TOGETHER = 8  # blocks that are added in float32
_FORMED_AT_ONCE = 2**21  # numbers of sums: beyond, new memory takes longer than calls
_LEAST_PRODUCTS = 2**17  # of a block: fewer take less time in float64
_SURPRISE = 111 * math.log(2)  # a draw is larger than `most_drawn` with probability 2^-111


@dataclass(frozen=True, slots=True)
class Additions:
    """How one parameter's gradients are added up.

    rows: examples of a block. wide: whether blocks are formed in float64. together: blocks of one pass that
    are added in float32; sums of these are added in float64. at_once: of these, how many are formed by one
    call.
    """

    rows: int
    wide: bool
    together: int = 1
    at_once: int = 1


@functools.lru_cache(maxsize=1024)
def most_drawn(expected: float) -> int:
    """The most examples in a Poisson draw of `expected` ones: a larger draw has a probability below 2^-111.

    The least m with m ln(m / mu) - m + mu >= 111 ln 2: Chernoff's bound for a binomial of mean mu, whatever
    its rate (Boucheron, Lugosi, Massart 2013, section 2.2, whose h is convex, so that a smaller mean has a
    smaller tail).
    """
    low, high = math.ceil(expected), math.ceil(2 * expected) + 256
    while high - low > 1:
        middle = (low + high) // 2
        if middle * math.log(middle / expected) - middle + expected >= _SURPRISE:
            high = middle
        else:
            low = middle
    return high


@functools.lru_cache(maxsize=1024)
def additions(positions: int, numbers: int, most: int, *, ordered: bool) -> Additions:
    """How to add gradients of `numbers` numbers, each the sum of `positions` outer products; 1 for a vector.

    most: B. ordered: whether the examples are in an order that is uniformly random and secret.
    """
    rows = _rows_of_block(positions) if ordered else 0
    if rows and (positions == 1 or rows * positions * numbers >= _LEAST_PRODUCTS):
        at_once = min(_TOGETHER, max(1, _FORMED_AT_ONCE // numbers))
        return Additions(rows, wide=False, together=_TOGETHER, at_once=at_once)
    if positions > 1:
        return Additions(positions_at_once(positions) // positions, wide=True)
    rows = float32_rows(most)
    return Additions(rows or ROWS[0], wide=not rows)


def _rows_of_block(positions: int) -> int:
    """The largest power of two that `_BLOCK_ERROR` allows, up to 64; 0 if none.

    Powers of two, so that a block of one layer lies in a single block of another.
    """
    rows, longer = _MOST_OF_BLOCK, 2 * math.sqrt(positions) if positions > 1 else 1.0
    while rows and 4 * rows * (rows * positions + 3) * longer * 2.0**-24 > _BLOCK_ERROR:
        rows //= 2
    return rows


def positions_at_once(positions: int) -> int:
    """P: how many terms one product adds, over all examples, if each example has `positions` of them."""
    return 2**12 if positions <= SHORT else MOST_POSITIONS


def float32_rows(most: int) -> int:
    """R: how many vectors may be added in float32, in a logical batch of at most `most`; 0 if none."""
    return next((rows for rows in ROWS if most * rows <= MOST_IN_FLOAT32 * ROWS[-1]), 0)


def sum_error(most: int) -> float:
    """What rounding may add to the distance that one example moves the sum, relative to the sensitivity.

    For examples in any order. B is `most`, u = 2^-24, U = 2^-53, every vector of length C at most.

    Vectors pass through R + 1 operations in float32, so that all blocks together err by (R + 2) u B C. The
    terms of outer products are together shorter than K C (`gradients/ghost_norm_bounds.py`: f a < K C) and
    pass through 2 multiplications and P + 1 additions in float64: all blocks err by (P + 4) U B K C, which is
    at most 1.001 x 2^-30 B C, since K P <= 2^23. Fewer than B later additions, in float64, err by
    1.02 (B + 128) B U C, and the division by the grid's spacing (`noise/gaussian.py`) by B U C. Both
    neighbouring sums have these errors, so each counts twice. All but the first are then below 3 x 2^-30 B,
    for B up to 2^21.
    """
    rows = float32_rows(most)
    of_vectors = (rows + 2) * 2.0**-23 if rows else 0.0
    return most * (of_vectors + 3 * 2.0**-30)
