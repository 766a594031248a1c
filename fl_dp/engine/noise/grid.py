"""The public grid on which sum and noise are added, and what its rounding costs.

The clipped sum is rounded to multiples of a public spacing g, noise is drawn in integers, and both are added
exactly. The release is a function of (integers of the sum + integers of the noise) and of public numbers;
floating point plays no part in it.

What one record can move. By the triangle inequality, a record moves the rounded sum by at most

    C  +  error C  +  sqrt(d) g        (d numbers; two values that differ by a differ by a + g at most after
                                        rounding to multiples of g)

and the noise is enlarged by this much, so that its multiplier, relative to what a record can move, is the one
that is accounted for. error: what rounding in floating point may add, by `engine/sum_error.py`.

Why Gaussian accounting applies. Up to a factor of 1 +- 2^-130 in every probability, the discrete Gaussian of
width w is a continuous one of width sqrt(w^2 - s^2), rounded at random to integers by the discrete Gaussian
of width s = 2.21 around it (Peikert 2010, theorem 3.1, by the same sum as in `discrete_gaussian.py`).
Rounding is post-processing. So a step is a Poisson-subsampled Gaussian mechanism whose multiplier is smaller
by a factor of sqrt(1 - s^2 / w^2) > 1 - 2^-42, which WIDENED makes up for.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from fl_dp.engine.noise.discrete_gaussian import FEWEST, MOST, width
from fl_dp.engine.sum_error import MOST_ERROR, sum_error
from fl_dp.errors import ConfigError

WIDENED = 1 + 1e-9
# A thousandth of the least bound that clients accept, and a thousand times the largest.
LEAST_SENSITIVITY, MOST_SENSITIVITY = 1e-15, 1e15
MOST_MULTIPLE = 2**62  # of g: a sum is cut there, which moves no two sums further apart; noise is far below
_ROUNDING = 2.0**-8  # of the sensitivity: rounding to the grid may cost this much before the grid is refined


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """spacing: g, public. levels: of the noise, see `discrete_gaussian`. deviation: of the noise.

    cut: the largest multiple of a sum, or of each pass, if its passes are rounded one by one.
    """

    spacing: float
    levels: int
    deviation: float
    cut: int = MOST_MULTIPLE


@lru_cache(maxsize=64)
def noise_grid(
    sensitivity: float, noise_multiplier: float, count: int, error: float = MOST_ERROR, passes: int = 1
) -> NoiseGrid:
    """The grid for a sum of `count` numbers that one record moves by `sensitivity` at most.

    error: what rounding adds to that, relative to it; if several clients share a grid, that of any batch.
    passes: how many parts of the sum are rounded to the grid, each by itself (`pass_grid`).
    deviation: noise_multiplier times all that a record can move, including the rounding to this very grid.
    Raises ConfigError for a noise or a sensitivity that protects nothing, and for noise so large that no
    grid is fine enough.
    """
    plain = noise_multiplier * sensitivity * (1 + error) * WIDENED
    if not 0 < plain < math.inf:
        raise ConfigError(
            f"Expected noise_multiplier={noise_multiplier} times sensitivity={sensitivity} to be finite "
            "and > 0."
        )
    if not LEAST_SENSITIVITY <= sensitivity <= MOST_SENSITIVITY:
        raise ConfigError(
            f"A clipping bound of {sensitivity:g}: expected 1e-12 to 1e12, where rounding is bounded, see "
            "docs/rounding.md."
        )
    for levels in range(FEWEST, MOST + 1):
        # Relative to the deviation.
        rounding = noise_multiplier * (passes * math.sqrt(count)) * WIDENED / width(levels)
        if rounding <= _ROUNDING:
            deviation = plain / (1 - rounding)
            return NoiseGrid(deviation / width(levels), levels, deviation)
    raise ConfigError(
        f"noise_multiplier={noise_multiplier:g} over {count} numbers: the noise is too large for its grid; "
        "lower it."
    )


@lru_cache(maxsize=64)
def pass_grid(sensitivity: float, noise_multiplier: float, count: int, most: int, size: int) -> NoiseGrid:
    """The grid for a sum whose passes are rounded one by one, so that processes can add integers exactly.

    Of passes of at most `size` records, out of a draw of at most `most`, of `count` numbers: all public.
    Raises ConfigError as `noise_grid` does, and for a grid so fine that integers of 64 bits could not hold
    the sum.

    What one record can move. A draw of at most B records (`most_drawn`) is cut in its order into passes of p
    records, so into K = ceil(B / p) at most. One record more or less moves all later records by one place,
    so every later pass may hold other records, and every pass may round differently.

    - Before rounding, the passes together still sum the same clipped gradients, with one more or less: that
      moves their sum by C (1 + error). The error of the passes adds up to `sum_error(B)` at most, as it is a
      multiple of the number of records. (Dividing by g in float64 is one more rounding of those that it
      counts.)
    - Rounding moves each number of a pass by g / 2 at most, that of K passes by K g / 2. Both neighbouring
      sums are rounded: they are at most K sqrt(d) g further apart than before.

    So a record moves the rounded sum by C (1 + error) + K sqrt(d) g at most, and `noise_grid(..., passes=K)`
    scales the noise to that.

    The cut at 2^62 / K. The sum of K passes must not overflow. But cutting one pass alone is not covered
    above: when records change places, it could move that pass further than they move the sum of all. So no
    pass may reach the cut. A number of a pass is at most C (p + error), and settings with which this is not
    below the cut are refused. Then the cut changes nothing, whatever the records are.
    """
    passes, error = math.ceil(most / size), sum_error(most)
    grid = noise_grid(sensitivity, noise_multiplier, count, error, passes)
    cut = MOST_MULTIPLE // passes
    if (size + error) * sensitivity / grid.spacing + 1 >= cut:
        raise ConfigError(
            f"noise_multiplier={noise_multiplier:g}, {passes} passes: the grid is too fine for 64 bits to "
            f"hold the sum of {most} records; raise the multiplier or the physical batch size."
        )
    return replace(grid, cut=cut)
