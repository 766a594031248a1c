"""Epsilon by Renyi differential privacy (RDP): fast, for planning, large federations and cross-checks."""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fl_dp.accounting.accountant import Accountant
from fl_dp.records import Entry

Array = NDArray[np.float64]

_LEFT = 9.5  # standard deviations of the noise; less than 1e-20 of its mass lies further left
# Orders that are computed together. A larger block wastes time on points that only its largest order needs; a
# smaller one wastes time on calls.
_BLOCK = 20
_ROUNDING = 8 * np.finfo(np.float64).eps  # for a few operations on each term, and for their sum
# Their distances from 1 grow by 2.9 %. Epsilon is usually flat around the best order, and these orders come
# within 0.02 % of the best of all. At rates below 0.01 the divergence may bend sharply at some order; then
# they come within 1 or 2 %.
ORDERS: Array = 1 + np.geomspace(0.1, 511.0, 300)


def compute_rdp_epsilon(entries: tuple[Entry, ...], delta: float) -> float:
    """An upper bound of epsilon.

    Renyi divergences add up over steps (Mironov 2017, arXiv 1702.07476, proposition 1). Each order then
    gives a bound on epsilon (Canonne, Kamath, Steinke 2020, arXiv 2004.00010, proposition 12; also Balle et
    al. 2020, arXiv 1905.09982, theorem 21). So the smallest over any set of orders is also a bound.
    """
    return _epsilon_of(_divergences(entries), delta)


def largest_rdp_epsilon(choices: Iterable[Iterable[tuple[Entry, ...]]], delta: float) -> float:
    """An upper bound of the epsilon of one history out of each of `choices` together, whichever these are.

    At each order no history adds more than the largest divergence among its choices.
    """
    largest = (np.max([_divergences(one) for one in each], axis=0) for each in choices)
    return _epsilon_of(sum(largest, start=np.zeros_like(ORDERS)), delta)


def _divergences(entries: tuple[Entry, ...]) -> Array:
    curves = (entry.steps * _curve(entry.sample_rate, entry.noise_multiplier) for entry in entries)
    return sum(curves, start=np.zeros_like(ORDERS))


def _epsilon_of(divergences: Array, delta: float) -> float:
    if _within_delta(float(divergences[0]), delta):
        return 0.0
    bounds = divergences + np.log1p(-1 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1)
    return max(0.0, float(bounds.min()))


def _within_delta(divergence: float, delta: float) -> bool:
    """Whether the total variation distance alone is at most delta, so that epsilon is 0.

    It is at most sqrt(1 - exp(-KL)) (Bretagnolle, Huber 1979), and KL is at most any Renyi divergence.
    """
    return -math.expm1(-divergence) < delta**2


@lru_cache(maxsize=8192)  # 2 KB each: a step that many clients, or many rounds, share is computed once
def _curve(sample_rate: float, noise_multiplier: float) -> Array:
    return renyi_divergences(sample_rate, noise_multiplier, ORDERS)


ACCOUNTANT = Accountant(compute_rdp_epsilon, upper_bound=True)


def renyi_divergences(sample_rate: float, noise_multiplier: float, orders: Array) -> Array:
    """An upper bound of the Renyi divergence of one step at each order.

    orders: (O,), > 1 and rising; returns (O,). With a record, the step's outcome is drawn from the mixture
    P = (1 - q) N(0, s^2) + q N(1, s^2); without it, from Q = N(0, s^2). No other gradients are worse, and P
    from Q diverges more than Q from P (Mironov, Talwar, Zhang 2019, arXiv 1908.10530, theorems 4 and 5). So
    one number serves for both adding and removing a record:

        D_a = log(A_a) / (a - 1),  A_a = E_Q[(P / Q)^a]
    """
    gaussian = orders * (orders - 1) / (2 * noise_multiplier**2)
    moments = gaussian if sample_rate == 1.0 else _log_moments(sample_rate, noise_multiplier, orders)
    divergences: Array = moments / (orders - 1)
    return divergences


def _log_moments(q: float, s: float, orders: Array) -> Array:
    """log A_a, (O,), never below the true one: A_a by the trapezoidal rule, in units x of the noise.

    The integrand (1 - q + q exp((x - 1/2s) / s))^a phi(x) is analytic for |Im x| < pi s, and there at most
    exp(Im^2 / 2) times as large as on the real line. The rule's error is then at most
    2 exp(b^2 / 2 - 2 pi b / h) of A_a for every b < pi s (Trefethen, Weideman 2014, "The Exponentially
    Convergent Trapezoidal Rule", theorem 5.1). With h as below and b = pi min(1, s) it is less than 3e-15.
    """
    h = min(0.5, s / 2)
    ends = _right_ends(q, s, orders)
    x = -_LEFT + h * np.arange(math.ceil((ends[-1] + _LEFT) / h) + 1)
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5 / s) / s)  # log(P / Q)
    log_weight = math.log(h / math.sqrt(2 * math.pi)) - x**2 / 2
    counts = np.searchsorted(x, ends) + 1
    moments = []
    for first in range(0, len(orders), _BLOCK):  # neighbours share the longest of their ranges
        block = orders[first : first + _BLOCK, None]
        n = counts[min(first + _BLOCK, len(orders)) - 1]
        moments.append(_log_sum_exp(block * log_ratio[:n] + log_weight[:n]))
    largest = orders * np.abs(log_ratio[counts - 1]) + np.abs(log_weight[counts - 1])
    rounded: Array = np.concatenate(moments) + _ROUNDING * (1 + largest) + 1e-14
    return rounded


def _right_ends(q: float, s: float, orders: Array) -> Array:
    """Where the integrand of each order may be cut off, (O,): less than 1e-17 of A_a lies beyond.

    There the integrand is at most a bell around a / s, of mass exp(a (a - 1) / 2s^2), while A_a is at least 1
    and at least q^a times that mass.
    """
    excess = np.minimum(orders * (orders - 1) / (2 * s**2), -orders * math.log(q))
    ends: Array = orders / s + np.sqrt(2 * (40 + excess))
    return ends


def _log_sum_exp(exponents: Array) -> Array:
    """(O, X) to (O,)."""
    top = exponents.max(axis=1)
    total: Array = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    return total
