"""Whoever drops out, and whatever c colluders take off: the noise that remains is what was signed."""

import math
from itertools import combinations

import numpy as np
import pytest
from federation.secure_sum.attempts import Played, head

from fl_dp.engine.noise.discrete_gaussian import DiscreteGaussian
from fl_dp.engine.noise.grid import noise_grid
from fl_dp.engine.noise.randomness import Randomness

NUMBERS, SIGMA, BOUND = 20_000, 1.3, 0.5
SURELY = 5 * math.sqrt(2 / NUMBERS)  # five standard deviations of a measured variance, of the variance


def noisy(clients: int, dropouts: int, colluders: int) -> tuple[Played, np.ndarray, list[np.ndarray]]:
    """An attempt in which each member's integers are its data plus its share of noise."""
    shares = clients - dropouts - colluders
    grid = noise_grid(BOUND, SIGMA / math.sqrt(shares), NUMBERS)
    sensitivity = BOUND * 1.001 + math.sqrt(NUMBERS) * grid.spacing
    played = Played(
        head(
            clients,
            dropouts,
            NUMBERS,
            colluders=colluders,
            max_grad_norm=BOUND,
            sensitivity=sensitivity,
            noise_multiplier=SIGMA,
            spacing=grid.spacing,
            levels=grid.levels,
            share_deviation=grid.deviation,
        )
    )
    noise = [DiscreteGaussian(grid.levels, Randomness.system()).take(NUMBERS) for _ in range(clients)]
    clean = [np.rint(one / 2.0**60 * BOUND / grid.spacing).astype(np.int64) for one in played.integers]
    played.integers = [one + other for one, other in zip(clean, noise, strict=True)]
    return played, np.array(clean), noise


@pytest.mark.parametrize(
    ("clients", "dropouts", "colluders", "gone"),
    [(5, 1, 1, gone) for gone in [(), (0,), (1,), (2,), (3,), (4,)]]
    + [(5, 0, 1, ()), (6, 2, 1, (0, 5)), (7, 1, 3, (3,))],
)
def test_what_is_opened_has_at_least_the_noise_that_was_signed(
    clients: int, dropouts: int, colluders: int, gone: tuple[int, ...]
) -> None:
    played, clean, noise = noisy(clients, dropouts, colluders)
    signed = (played.head.noise_multiplier * played.head.sensitivity / played.head.spacing) ** 2
    total = played.until_masked(gone).total()
    survivors = played.server.survivors().places
    seen = total - clean[list(survivors)].sum(axis=0)
    for known in combinations(survivors, colluders):
        left = seen - np.sum([noise[place] for place in known], axis=0)
        assert left.var() >= signed * (1 - SURELY)
    if len(survivors) == clients - dropouts:  # and no more than that, so that the bound is seen to be tight
        assert left.var() <= signed * (1 + SURELY + 0.02)


def test_one_share_less_is_too_little() -> None:
    """The test above can fail: what is left without one more share is less than was signed."""
    played, clean, noise = noisy(5, 1, 1)
    signed = (played.head.noise_multiplier * played.head.sensitivity / played.head.spacing) ** 2
    total = played.until_masked((0,)).total()
    left = total - clean[1:].sum(axis=0) - noise[1] - noise[2]
    assert left.var() < signed * (1 - SURELY)
