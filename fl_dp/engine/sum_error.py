"""How far rounding can move a clipped sum, by theorem and from public numbers alone.

B is the largest number of examples that a logical batch may hold, C the clipping bound. Every example
contributes a vector of length C at most, which follows from the example itself. The computed sum differs from
the exact sum of these vectors by at most `sum_error(B)` C / 2, whatever they are and in whatever order they
are added. So one example more or less moves it by at most C (1 + `sum_error(B)`). Proofs: docs/rounding.md.

In short (Higham 2002, sections 3.1 and 4.2: if no product passes through more than k roundings, the error of
a sum of products is at most gamma_k = k u / (1 - k u) times the sum of their absolute values, in any order):

- vectors that are there, or are one outer product each, are added R at a time in float32 (`float32_rows`),
  and these blocks in float64: B (R + 1) u C for float32, B^2 U C for float64 (u = 2^-24, U = 2^-53);
- a sum of outer products, known by its ghost norm alone, may be K times shorter than its terms together, and
  no more (`gradients/ghost_norm_bounds.py`). It is computed in float64, with at most P terms for each of its
  numbers, K P <= 2^23 (`positions_at_once`): B 2^23 U C.

If even small blocks in float32 would err too much, everything is added in float64.
"""

import functools
import math

ROWS = (128, 64, 32)  # vectors that are added in float32: the first of these whose error is small enough
SHORT = 256  # positions up to which K is 2^11; beyond, it is KAPPA
KAPPA = 2**9
MOST_POSITIONS = 2**14  # of an example: with more it has no ghost norm
MOST_IN_FLOAT32 = 1024  # examples of a logical batch
MOST_ERROR = 0.01  # of the sensitivity: `sum_error` of any logical batch that clients accept

_SURPRISE = 111 * math.log(2)  # a draw is larger than `most_drawn` with probability 2^-111


@functools.lru_cache(maxsize=1024)
def most_drawn(expected: float) -> int:
    """The most examples in a Poisson draw of so many expected ones, except with a probability of 2^-111.

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


def positions_at_once(positions: int) -> int:
    """P: the number of terms that one product adds, over all examples, if each has so many positions."""
    return 2**12 if positions <= SHORT else MOST_POSITIONS


def float32_rows(most: int) -> int:
    """R: how many vectors are added in float32 for a logical batch of at most so many; 0 if none."""
    return next((rows for rows in ROWS if most * rows <= MOST_IN_FLOAT32 * ROWS[-1]), 0)


def sum_error(most: int) -> float:
    """What rounding may add to the distance that one example moves the sum, relative to the sensitivity.

    Both neighbouring sums have errors, so every term of the proofs counts twice. The last term stands for
    2^23 U and for all additions in float64, of which a number passes through at most `most` + 130.
    """
    rows = float32_rows(most)
    of_vectors = (rows + 2) * 2.0**-23 if rows else 0.0
    return most * (of_vectors + 3 * 2.0**-30)
