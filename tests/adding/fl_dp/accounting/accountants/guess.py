"""Epsilon by the central limit theorem (Bu, Dong, Long, Su 2020): an approximation, often too small."""

import math

from fl_dp.accounting.accountant import Accountant
from fl_dp.records import Entry


def _epsilon(entries: tuple[Entry, ...], delta: float) -> float:
    from dp_accounting import get_epsilon_gaussian

    mu = math.sqrt(sum(e.steps * e.sample_rate**2 * math.expm1(e.noise_multiplier**-2) for e in entries))
    return float(get_epsilon_gaussian(1 / mu, delta))


ACCOUNTANT = Accountant(_epsilon, upper_bound=False)
