"""A model's numbers as one vector of integers, in an order that all members share, and their grid."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl_dp.engine.noise.grid import WIDENED, noise_grid
from fl_dp.engine.sum_error import MOST_ERROR
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.secure_sum.terms import Head

SAMPLER = "discrete gaussian 1"  # as in engine/noise/discrete_gaussian.py


@dataclass(frozen=True, slots=True)
class SumGrid:
    """The grid in the terms. sensitivity: S, of the sum to one example, rounding included;
    share_deviation: of one member's share of the noise."""

    spacing: float
    levels: int
    sensitivity: float
    share_deviation: float


def grid_of(max_grad_norm: float, noise_multiplier: float, shares: int, numbers: int) -> SumGrid:
    """The grid of a sum with so many shares of noise; ConfigError if none is fine enough."""
    grid = noise_grid(max_grad_norm, noise_multiplier / math.sqrt(shares), numbers)
    moved = (max_grad_norm * (1 + MOST_ERROR) + math.sqrt(numbers) * grid.spacing) * WIDENED
    return SumGrid(grid.spacing, grid.levels, moved, grid.deviation)


def check_grid(head: Head, numbers: int) -> None:
    """DeclinedError unless the terms' grid is the one for the client's own model and arithmetic."""
    try:
        own = grid_of(head.max_grad_norm, head.noise_multiplier, head.shares, numbers)
    except ConfigError as error:
        raise DeclinedError(f"the round asks for something that cannot be done: {error}") from error
    signed = SumGrid(head.spacing, head.levels, head.sensitivity, head.share_deviation)
    if (head.numbers, head.sampler, signed) != (numbers, SAMPLER, own):
        raise DeclinedError(
            f"a secure sum of {head.numbers} numbers by {head.sampler!r} on a grid of {head.spacing:g}: this "
            f"client's own are {numbers}, {SAMPLER!r} and {own.spacing:g}."
        )


def flat(arrays: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """All numbers in one vector, with the arrays sorted by name."""
    return np.concatenate([np.asarray(arrays[name], np.int64).reshape(-1) for name in sorted(arrays)])


def unflat(vector: NDArray[np.int64], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.int64]]:
    found: dict[str, NDArray[np.int64]] = {}
    start = 0
    for name in sorted(shapes):
        count = math.prod(shapes[name])
        found[name] = vector[start : start + count].reshape(shapes[name])
        start += count
    return found
