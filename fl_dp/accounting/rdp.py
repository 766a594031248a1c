"""Epsilon by Renyi differential privacy: fast, for planning and as a cross-check."""

from fl_dp.accounting.events import to_dp_event
from fl_dp.records import Entry

# dp_accounting sums a series for a fractional order and gives up, with a warning, after 1,000 terms. The
# terms fall at least as fast as i^-(order + 1), so that from order 3.5 on they are always small enough by
# then. An integer order is a finite sum.
ORDERS = (
    2.0,
    3.0,
    *(order / 10 for order in range(35, 110)),
    *map(float, range(11, 65)),
    128.0,
    256.0,
    512.0,
)


def compute_rdp_epsilon(entries: tuple[Entry, ...], delta: float) -> float:
    """An upper bound of epsilon.

    Renyi divergences of the sampled Gaussian mechanism (Mironov, Talwar, Zhang 2019, arXiv 1908.10530) add up
    over steps; each order then gives a bound of epsilon (Canonne, Kamath, Steinke 2020, arXiv 2004.00010,
    proposition 12; also Balle et al. 2020, arXiv 1905.09982, theorem 21), so that the least over any set of
    orders is one too.
    """
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(ORDERS)  # adding or removing one record is its default relation
    accountant.compose(to_dp_event(entries))
    return float(accountant.get_epsilon(delta))
