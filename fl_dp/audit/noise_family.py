"""The mechanisms that the f-DP bound compares: the plan's own, with more noise and with less."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fl_dp.accounting.accountants.pld import compose, transform_error
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.events import merge
from fl_dp.accounting.privacy_loss import Array
from fl_dp.audit.f_dp import TradeOff
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

_LINES = 1001  # in a trade-off
_MOST_REACH = 300.0  # an epsilon whose exponential is far from float64's largest number
_MOST_UP = 8  # doublings of the noise
_HALVINGS = 9  # of the last doubling: the noise is found to 0.14 %


@dataclass(frozen=True, slots=True)
class NoiseFamily:
    """`entry` with any noise multiplier; sampling and steps stay. Less noise allows all that more does."""

    entry: Entry
    delta: float

    def epsilon(self, noise_multiplier: float) -> float:
        """Epsilon of this member at `delta`, by PLD: at most 0.05 % too large; inf for almost no noise."""
        return compute_epsilon([self._member(noise_multiplier)], self.delta)

    def trade_off(self, noise_multiplier: float) -> TradeOff:
        """The member's trade-off. Lines beyond twice its epsilon hardly ever lead."""
        reach = min(2.0 * self.epsilon(noise_multiplier) + 2.0, _MOST_REACH)
        return _trade_off(self._member(noise_multiplier), reach)

    def least_refuted(self, refuted: Callable[[TradeOff], bool]) -> float:
        """The least noise multiplier whose trade-off is refuted, rounded up; inf if none is.

        If a member is refuted, so is the exact curve of every member with more noise, since it allows less.
        So if the true member is the answer or has more noise, then its own curve is refuted. That has the
        test's own probability of error, however many members are tried.
        """

        def holds(noise: float) -> bool:
            return self.epsilon(noise) < math.inf and refuted(self.trade_off(noise))

        high = self._refuted_within_a_factor_of_two(holds)
        if high == math.inf:
            return high
        low = high / 2
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _refuted_within_a_factor_of_two(self, holds: Callable[[float], bool]) -> float:
        """A refuted member whose half is not refuted; inf if there is none up to _MOST_UP doublings."""
        noise = self.entry.noise_multiplier
        if holds(noise):
            while holds(noise / 2):  # ends: with hardly any noise epsilon is infinite
                noise /= 2
            return noise
        return next((noise * 2**i for i in range(1, _MOST_UP + 1) if holds(noise * 2**i)), math.inf)

    def _member(self, noise_multiplier: float) -> Entry:
        return replace(self.entry, noise_multiplier=noise_multiplier, shares=1)


@lru_cache(maxsize=128)  # repeated audits try the same members; 16 kB each
def _trade_off(member: Entry, reach: float) -> TradeOff:
    epsilons = np.linspace(-reach, reach, _LINES)
    return TradeOff(epsilons, delta_bounds((member,), epsilons))


def delta_bounds(entries: tuple[Entry, ...], epsilons: Array) -> Array:
    """(k,) upper bounds of delta at each of `epsilons` (k,), for both adding and removing a record.

    epsilons: in ascending order. They may be negative; delta is then the share of outcomes that must differ.
    Computed by PLD as the larger delta of both directions. For epsilon < 0, with E any set of outcomes
    and E' its complement, P(E) - e^eps Q(E) = 1 - e^eps + e^eps (Q(E') - e^-eps P(E')): the delta of the
    other direction at -epsilon decides.
    Raises AccountingError for no entries and for unprotected ones.
    """
    if not entries or not all(entry.private for entry in entries):
        raise AccountingError("A trade-off needs entries, each with noise: give those of a private plan.")
    entries = merge(entries)
    sizes = np.sort(np.abs(epsilons))
    deltas = np.asarray(compose(entries).get_delta_for_epsilon(sizes)) + transform_error(entries)
    by_size = deltas[np.searchsorted(sizes, np.abs(epsilons))]
    shrink = np.exp(np.minimum(epsilons, 0.0))
    bounds: Array = np.clip(1.0 - shrink + shrink * by_size, 0.0, 1.0)
    return bounds
