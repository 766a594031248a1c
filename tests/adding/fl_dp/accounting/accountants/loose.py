"""Twice the epsilon by RDP, in the place of a bound of one's own."""

from fl_dp.accounting.accountant import Accountant
from fl_dp.accounting.accountants import rdp
from fl_dp.records import Entry


def _epsilon(entries: tuple[Entry, ...], delta: float) -> float:
    return 2 * rdp.ACCOUNTANT.compute(entries, delta)


ACCOUNTANT = Accountant(_epsilon, upper_bound=True)
