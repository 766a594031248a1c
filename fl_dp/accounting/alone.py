"""Epsilon alone: what holds if the assumption behind secure sums fails, and each client's own part is seen.

In each step the client then has only its own share of the noise. Steps without secure sums count unchanged. A
server may choose the number of members of a sum, and with it the size of a share, by what it has seen. So
every step of a mechanism counts with the smallest share of all its steps.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.errors import AccountingError
from fl_dp.records import Entry


def alone_of(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries as epsilon alone counts them, merged."""
    return merge(entry.alone() for entry in with_least_shares(entries))


def with_least_shares(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries; those of secure sums get the largest `shares` of any with the same rate and noise."""
    entries = tuple(entries)
    most: dict[tuple[float, float], int] = {}
    for one in entries:
        key = one.sample_rate, one.noise_multiplier
        most[key] = max(most.get(key, 1), one.shares)
    return tuple(
        replace(one, shares=most[one.sample_rate, one.noise_multiplier]) if one.shared else one
        for one in entries
    )


def any_shared(entries: Iterable[Entry]) -> bool:
    """Whether any steps were of secure sums; if not, both epsilons are the same."""
    return any(entry.shared for entry in entries)


def compute_epsilon_alone(
    entries: Iterable[Entry], delta: float, accountant: str = DEFAULT_ACCOUNTANT
) -> float:
    """The epsilon of `alone_of`; infinite also if the accountant has no answer for so little noise."""
    try:
        return compute_epsilon(alone_of(entries), delta, accountant)
    except AccountingError:
        return math.inf
