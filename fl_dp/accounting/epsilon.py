"""Epsilon of a history of entries, by the accountant of one's choice."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal, get_args

from fl_dp.accounting.accountants.pld import compute_pld_epsilon
from fl_dp.accounting.accountants.prv import compute_prv_epsilon
from fl_dp.accounting.accountants.rdp import compute_rdp_epsilon
from fl_dp.accounting.events import merge, order_two_divergence
from fl_dp.errors import AccountingError
from fl_dp.records import Entry, total_steps

# A budget is held by one of the first two. "prv" is for comparing: it loads torch, through Opacus, and leaves
# histories unanswered that a ledger may hold.
Accountant = Literal["pld", "rdp"]
AnyAccountant = Literal["pld", "rdp", "prv"]

_COMPUTE: Mapping[AnyAccountant, Callable[[tuple[Entry, ...], float], float]] = {
    "pld": compute_pld_epsilon,
    "rdp": compute_rdp_epsilon,
    "prv": compute_prv_epsilon,
}
# Beyond these there is no privacy left that is worth computing: Renyi divergence of order 2, and steps.
_MAX_DIVERGENCE = 1000.0
MAX_STEPS = 1_000_000
# Of a weaker step than these, double precision loses the loss among its rounding errors.
_MAX_NOISE = 1e4
_MIN_RATE_OVER_NOISE = 1e-7


def compute_epsilon(entries: Iterable[Entry], delta: float, accountant: AnyAccountant = "pld") -> float:
    """The epsilon that `entries` together spend at `delta`: an upper bound, for adding or removing a record.

    | entries                              | epsilon |
    |--------------------------------------|---------|
    | none                                 | 0.0     |
    | equal ones, in any order or grouping | that of their merged steps |
    | hardly any noise, or a million steps | inf     |

    Results are cached by the merged entries: a thousand clients of one history cost one computation.
    Raises AccountingError for a delta outside (0, 1), an unknown accountant, or what it cannot resolve: a
    tiny delta ("pld"), a large epsilon too ("prv").
    """
    if not 0.0 < delta < 1.0:
        raise AccountingError(f"Expected delta={delta} in (0, 1).")
    if accountant not in _COMPUTE:
        raise AccountingError(f"accountant {accountant!r}: expected {' or '.join(get_args(AnyAccountant))}.")
    return _compute(merge(entries), delta, accountant)


@lru_cache(maxsize=4096)
def _compute(entries: tuple[Entry, ...], delta: float, accountant: AnyAccountant) -> float:
    if not entries:
        return 0.0
    divergence = sum(entry.steps * order_two_divergence(entry) for entry in entries)
    if divergence > _MAX_DIVERGENCE or total_steps(entries) > MAX_STEPS:
        return math.inf
    return _COMPUTE[accountant](merge(map(_resolvable, entries)), delta)


def _resolvable(entry: Entry) -> Entry:
    """The entry, or the least private-looking one that double precision resolves: never a smaller epsilon.

    Epsilon grows with the sample rate and falls with the noise.
    """
    noise_multiplier = min(entry.noise_multiplier, _MAX_NOISE)
    sample_rate = max(entry.sample_rate, _MIN_RATE_OVER_NOISE * noise_multiplier)
    return Entry(sample_rate, noise_multiplier, entry.steps)
