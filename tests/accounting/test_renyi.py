"""Renyi divergences of a step: closed forms, numbers of others, and never below the integral itself."""

import logging
import math

import mpmath
import numpy as np
import pytest

from fl_dp.accounting.accountants.rdp import ORDERS, compute_rdp_epsilon
from fl_dp.accounting.renyi import renyi_divergences
from fl_dp.records import Entry

STEPS = [(0.01, 1.0), (0.5, 20.0), (1e-4, 0.5), (0.1, 0.3), (0.9, 1.0), (1e-3, 100.0)]


def _exact_log_moment(q: float, s: float, order: float) -> mpmath.mpf:
    """log A_a by quadrature with 30 digits."""
    with mpmath.workdps(30):
        q, s, order = mpmath.mpf(q), mpmath.mpf(s), mpmath.mpf(order)
        peak = order / s

        def integrand(x):
            return mpmath.npdf(x) * (1 - q + q * mpmath.exp((x - 1 / (2 * s)) / s)) ** order

        return mpmath.log(
            mpmath.quad(integrand, sorted([-30, -8, -3, 0, 3, 8, peak - 6, peak, peak + 6, peak + 40]))
        )


@pytest.mark.parametrize("order", [1.1, 2.0, 3.7, 10.3, 40.0])
@pytest.mark.parametrize(("q", "s"), STEPS)
def test_an_upper_bound_of_the_integral_and_close_to_it(q, s, order):
    moment = (order - 1) * float(renyi_divergences(q, s, np.array([order]))[0])
    exact = float(_exact_log_moment(q, s, order))
    assert exact <= moment <= exact * (1 + 1e-9) + 1e-10


@pytest.mark.parametrize(("q", "s"), STEPS)
def test_integer_orders_are_those_of_dp_accounting(q, s):
    """There it sums a finite series (Mironov, Talwar, Zhang 2019, section 3.3)."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = np.array([2.0, 3.0, 8.0, 32.0, 128.0])
    theirs = RdpAccountant(list(orders)).compose(PoissonSampledDpEvent(q, GaussianDpEvent(s)))._rdp
    assert renyi_divergences(q, s, orders) == pytest.approx(theirs, rel=1e-9, abs=1e-10)


def test_published_divergences():
    """dp_accounting, rdp_privacy_accountant_test.py: 50 steps at rate 0.01 and noise 2.5.

    At orders that are no integers its numbers are bounds: it adds up a series whose terms change sign as if
    they did not (the comparison with the integral, above, is the judge).
    """
    ours = 50 * renyi_divergences(0.01, 2.5, np.array([5.0, 50.0, 100.0]))
    assert ours == pytest.approx([2.18075656e-03, 2.38460375e-02, 1.67416308e02], rel=1e-6)
    ours = 50 * renyi_divergences(0.01, 2.5, np.array([1.5, 2.5]))
    theirs = np.array([6.70579741e-04, 1.08548710e-03])
    assert (0.95 * theirs < ours).all()
    assert (ours < theirs).all()


@pytest.mark.parametrize("s", [0.1, 1.0, 30.0])
def test_without_sampling_it_is_the_gaussian_mechanism(s):
    assert renyi_divergences(1.0, s, ORDERS) == pytest.approx(ORDERS / (2 * s**2), rel=1e-12)


def test_it_grows_with_order_and_rate_and_falls_with_noise():
    curve = renyi_divergences(0.02, 1.1, ORDERS)
    assert (np.diff(curve) > 0).all()
    assert (curve < renyi_divergences(0.03, 1.1, ORDERS)).all()
    assert (curve > renyi_divergences(0.02, 1.2, ORDERS)).all()


def test_no_order_fails_and_nothing_is_printed(caplog):
    """Rates near one half with much noise are where the series of others do not converge."""
    with caplog.at_level(logging.WARNING):
        for q in (1e-7, 0.01, 0.49, 0.5, 0.51, 0.9, 0.999999):
            for s in (0.0625, 0.3, 1.0, 20.0, 1000.0):
                assert np.isfinite(renyi_divergences(q, s, ORDERS)).all()
    assert not caplog.records


@pytest.mark.parametrize(
    ("entry", "gain"),
    [
        (Entry(1.0, 10.0, 1), 2e-4),
        (Entry(0.01, 1.0, 500), 2e-4),
        (Entry(0.3, 0.9, 50), 2e-4),
        (Entry(0.0064, 1.0, 782), 0.01),
        (Entry(1e-4, 0.5, 50_000), 0.02),
    ],
)
def test_finer_orders_gain_little(entry, gain):
    fine = 1 + np.geomspace(0.1, 511.0, 5000)
    curve = entry.steps * renyi_divergences(entry.sample_rate, entry.noise_multiplier, fine)
    best = (curve + np.log1p(-1 / fine) - np.log(1e-5 * fine) / (fine - 1)).min()
    assert compute_rdp_epsilon((entry,), 1e-5) <= best * (1 + gain)


def test_where_the_total_variation_is_within_delta_epsilon_is_zero():
    """One step so weak that the distributions differ by less than delta: TV = 2 Phi(1 / 2s) - 1 = 4e-4."""
    assert math.erf(1 / (2 * math.sqrt(2) * 1000)) < 4e-4
    assert compute_rdp_epsilon((Entry(1.0, 1000.0, 1),), 0.01) == 0.0
    assert compute_rdp_epsilon((Entry(1.0, 1000.0, 1),), 1e-4) > 0.0
