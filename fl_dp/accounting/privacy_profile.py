"""The whole trade-off of a history instead of one point of it: upper bounds of delta at every epsilon."""

import numpy as np

from fl_dp.accounting.accountants.pld import compose
from fl_dp.accounting.events import merge
from fl_dp.accounting.privacy_loss import Array
from fl_dp.accounting.transform_error import transform_error
from fl_dp.errors import AccountingError
from fl_dp.records import Entry


def delta_bounds(entries: tuple[Entry, ...], epsilons: Array) -> Array:
    """(k,) upper bounds of delta at each of `epsilons` (k,), for both adding and removing a record.

    epsilons: in ascending order. They may be negative; delta is then the share of outcomes that must differ.
    Computed by PLD, as the larger delta of the two directions. For epsilon < 0, with E any set of outcomes
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
