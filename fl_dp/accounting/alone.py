"""Epsilon alone: what holds if the assumption behind secure sums fails, and each client's own part is seen.

Of each step it then has its own share of noise and no more. Steps without secure sums count as they are. A
server may choose how many members a sum has, and so how small a share is, by what it has seen: every step of
a mechanism counts with the least share of all.
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
    """The entries as they count alone, merged."""
    return merge(entry.alone() for entry in with_least_shares(entries))


def with_least_shares(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries, those of secure sums with the most shares of any of the same rate and noise."""
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
    """Whether any steps were of secure sums; else both epsilons are one."""
    return any(entry.shared for entry in entries)


def compute_epsilon_alone(
    entries: Iterable[Entry], delta: float, accountant: str = DEFAULT_ACCOUNTANT
) -> float:
    """The epsilon of `alone_of`; infinite too where the accountant has no answer for so little noise."""
    try:
        return compute_epsilon(alone_of(entries), delta, accountant)
    except AccountingError:
        return math.inf
