"""139 schools that are made up, on which choose.py tries settings: none of their numbers is from a record.

What is assumed is written below, in round numbers. Bands of verbal reasoning are quarters and a half by
definition; that bands explain a large part of the scores' variance and schools a small one is what studies of
examination results say (Goldstein et al. 1993 and others). Everything else is equally likely or a guess.
"""

import numpy as np

Array = np.ndarray
SIZES = (25, 250)  # pupils, small schools as frequent as large ones on a logarithmic scale
MEAN, DEVIATION = 0.3, 0.2  # of scores on 0 to 1
OF_BANDS, OF_SCHOOLS = 0.4, 0.15  # of the scores' variance
_BANDS = (0.25, 0.5, 0.25)
_YEARS = _SEXES = _DENOMINATIONS = (1 / 3, 1 / 3, 1 / 3)
_GENDERS = (0.5, 0.5)
_ETHNIC = (0.5, *[0.05] * 10)


def schools(seed: int, count: int = 139) -> list[tuple[Array, Array]]:
    """Each school's inputs (n, 28) and scores (n, 1) from 1 to 70, in the columns of school.mat."""
    rng = np.random.default_rng(seed)
    low, high = np.log(SIZES)
    return [_school(rng, int(np.exp(rng.uniform(low, high)))) for _ in range(count)]


def _school(rng: np.random.Generator, size: int) -> tuple[Array, Array]:
    def drawn(shares: tuple[float, ...]) -> Array:
        return rng.multinomial(1, shares, size=size)  # (size, categories)

    def common(shares: tuple[float, ...]) -> Array:
        return np.tile(rng.multinomial(1, shares), (size, 1))

    meals, best = rng.integers(10, 70), rng.integers(5, 45)
    bands = drawn(_BANDS)
    columns = [drawn(_YEARS), np.full((size, 1), meals), np.full((size, 1), best), drawn(_GENDERS), bands]
    columns += [drawn(_ETHNIC), common(_SEXES), common(_DENOMINATIONS), np.ones((size, 1))]
    return np.hstack(columns).astype(np.uint8), _scores(rng, bands)


def _scores(rng: np.random.Generator, bands: Array) -> Array:
    step = DEVIATION * (OF_BANDS / 0.5) ** 0.5  # half of the pupils are a step above or below the others
    of_school = rng.normal(0, DEVIATION * OF_SCHOOLS**0.5)
    by_chance = rng.normal(0, DEVIATION * (1 - OF_BANDS - OF_SCHOOLS) ** 0.5, len(bands))
    shares = MEAN + bands @ np.array([step, 0, -step]) + of_school + by_chance
    return np.clip(np.rint(1 + 69 * shares), 1, 70).astype(np.uint8)[:, None]
