"""Epsilon of a history of entries, by a chosen accountant."""

import math
from collections.abc import Iterable
from dataclasses import replace
from decimal import ROUND_CEILING, Context
from functools import lru_cache

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT, find_accountant
from fl_dp.accounting.events import merge, order_two_divergence
from fl_dp.errors import AccountingError
from fl_dp.records import Entry, total_steps

# Limits on one step's Renyi divergence of order 2 (that of noise 1/32 without sampling), and on steps: beyond
# either, too little privacy is left to compute.
_MAX_DIVERGENCE = 1024.0
MAX_STEPS = 1_000_000
# A larger epsilon is given as infinity. PLD sums exp(-loss) times a probability over losses of at least
# epsilon; up to here, no term that counts underflows (the least double is about exp(-744)).
MAX_EPSILON = 650.0
# With more noise, or a lower rate for its noise, a step's loss is so small that rounding errors hide it.
_MAX_NOISE = 1e4
_MIN_RATE_OVER_NOISE = 1e-7


def compute_epsilon(entries: Iterable[Entry], delta: float, accountant: str = DEFAULT_ACCOUNTANT) -> float:
    """The epsilon that `entries` together spend at `delta`, for adding or removing a record.

    It is an upper bound if the accountant's epsilon is one (`Accountant.upper_bound`).

    | entries | epsilon |
    |---------|---------|
    | none | 0.0 |
    | equal ones, in any order or grouping | that of their merged steps |
    | noise below 1/32, more than a million steps, or epsilon above `MAX_EPSILON` | inf |

    Results are cached by the merged entries: a thousand clients with one history cost one computation.
    Raises ConfigError for an unknown accountant, and AccountingError for a delta outside (0, 1) or what the
    accountant cannot resolve: a tiny delta ("pld").
    """
    if not 0.0 < delta < 1.0:
        raise AccountingError(f"Expected delta={delta} in (0, 1).")
    return _compute(merge(entries), delta, accountant)


@lru_cache(maxsize=4096)
def _compute(entries: tuple[Entry, ...], delta: float, accountant: str) -> float:
    found = find_accountant(accountant)
    if not entries:
        return 0.0
    if total_steps(entries) > MAX_STEPS:  # checked first: a product with 10^400 steps is no float
        return math.inf
    if any(order_two_divergence(entry) > _MAX_DIVERGENCE for entry in entries):
        return math.inf
    epsilon = found.compute(resolvable(entries), delta)
    return epsilon if epsilon <= MAX_EPSILON else math.inf


def resolvable(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries, merged; for one that double precision cannot resolve, one of less noise or a higher rate.

    Epsilon grows with the sample rate and falls with the noise, so it never becomes smaller. The number of
    shares is irrelevant to an observer of the sum; reset to 1.
    """
    found = []
    for entry in entries:
        noise = min(entry.noise_multiplier, _MAX_NOISE)
        rate = max(entry.sample_rate, _MIN_RATE_OVER_NOISE * noise)
        found.append(replace(entry, sample_rate=rate, noise_multiplier=noise, shares=1))
    return merge(found)


def in_digits(epsilon: float, digits: int) -> str:
    """Rounded up to `digits` significant digits: a printed epsilon is never below the computed one."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(epsilon)))
    return f"{float(rounded):.{digits}g}"
