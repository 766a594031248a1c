"""Epsilon by dp_accounting alone, without fl_dp's own accounting.

This does what `dp_accounting.pld.PLDAccountant` does with Poisson-sampled Gaussian events, for adding or
removing a record; a test compares both, bit for bit. Its single calls compute a step that many clients or
rounds share only once.
"""

import math
import sys
from functools import lru_cache

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_gaussian_mechanism,
    identity,
)

from fl_dp.records import Entry

# dp_accounting's grid may add so much to epsilon, measured as docs/verify.md says. A claim lower by no
# more does not contradict it.
RELATIVE, ABSOLUTE = 2e-3, 1e-3
LOOSER = 0.02  # if the claim is higher by more, its accountant is looser

_COARSE, _FINE = 0.1, 0.02  # grid interval over the deviation of one step's loss
_STEP_POINTS, _TOTAL_POINTS = 100_000, 1_000_000
_ROUNDINGS, _LEAST_DELTA = 20.0, 1e-13
_TAIL = 12.0  # deviations of the noise
# Beyond these fl_dp gives no epsilon either: steps, and smallest noise.
_MOST_STEPS, _LEAST_NOISE = 1_000_000, 0.03


def epsilon_of(charges: tuple[Entry, ...], delta: float, *, fine: bool = False) -> float:
    """dp_accounting's epsilon for the charges together; infinite if nothing is protected.

    fine: on a grid five times as fine, which takes several times as long.
    """
    if not charges:
        return 0.0
    if _is_hopeless(charges):
        return math.inf

    interval = grid_interval(charges, fine)
    composed = identity(value_discretization_interval=interval)
    for entry in charges:
        composed = composed.compose(_composed(entry, interval))
    with np.errstate(over="ignore"):  # where epsilon is infinite
        return float(composed.get_epsilon_for_delta(delta))


def can_resolve(charges: tuple[Entry, ...], delta: float) -> bool:
    """Whether delta is above the error of dp_accounting's Fourier transforms, which grows with the steps."""
    steps = sum(entry.steps for entry in charges)
    return _is_hopeless(charges) or delta >= _ROUNDINGS * steps * sys.float_info.epsilon + _LEAST_DELTA


def allowed(epsilon: float) -> float:
    """The smallest claim that does not contradict dp_accounting's `epsilon`."""
    return epsilon * (1 - RELATIVE) - ABSOLUTE


def contradicts(claimed: float, charges: tuple[Entry, ...], delta: float) -> float | None:
    """dp_accounting's epsilon if the claim is too low; else None.

    A claim that is too low on the coarse grid is checked again on the fine one.
    """
    for fine in (False, True):
        epsilon = epsilon_of(charges, delta, fine=fine)
        if claimed >= allowed(epsilon):
            return None
    return epsilon


def grid_interval(charges: tuple[Entry, ...], fine: bool = False) -> float:
    """The grid interval for all charges: a power of two, so that few steps are computed again."""
    steps = sum(entry.steps for entry in charges)
    deviation = math.sqrt(sum(entry.steps * _divergence(entry) for entry in charges) / steps)
    wanted = deviation * (_FINE if fine else _COARSE)
    return 2.0 ** math.floor(math.log2(max(wanted, *(_least_interval(entry) for entry in charges))))


def _is_hopeless(charges: tuple[Entry, ...]) -> bool:
    return (
        any(entry.noise_multiplier < _LEAST_NOISE for entry in charges)
        or sum(entry.steps for entry in charges) > _MOST_STEPS
    )


def _divergence(entry: Entry) -> float:
    """Renyi divergence of order 2 of a step, nearly the variance of its privacy loss.

    Mironov, Talwar, Zhang 2019, section 3.3. At least that of the smallest rate that a grid can resolve.
    """
    gaussian = min(1.0 / entry.noise_multiplier**2, 700.0)
    return max(math.log1p(entry.sample_rate**2 * math.expm1(gaussian)), 1e-24)


def _least_interval(entry: Entry) -> float:
    """The smallest interval at which neither a step nor all of them need too many grid points."""
    gaussian = (0.5 / entry.noise_multiplier + _TAIL) / entry.noise_multiplier
    loss = math.log1p(entry.sample_rate * math.expm1(min(gaussian, 700.0)))
    loss = max(loss, gaussian - 700.0)
    variance = entry.steps * _divergence(entry)
    width = 16 * math.sqrt(variance) + variance / loss
    return max(loss / _STEP_POINTS, width / _TOTAL_POINTS, 1e-12)


@lru_cache(maxsize=8)  # a distribution may take 16 MB
def _composed(entry: Entry, interval: float) -> PrivacyLossDistribution:
    return _step(entry.sample_rate, entry.noise_multiplier, interval).self_compose(entry.steps)


@lru_cache(maxsize=8)
def _step(sample_rate: float, noise_multiplier: float, interval: float) -> PrivacyLossDistribution:
    return from_gaussian_mechanism(
        noise_multiplier, value_discretization_interval=interval, sampling_prob=sample_rate
    )
