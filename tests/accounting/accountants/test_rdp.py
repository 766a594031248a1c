"""Renyi divergences of a step: closed forms, and never below the integral itself."""

import logging
import math

import mpmath
import numpy as np
import pytest

from fl_dp.accounting.accountants.rdp import ORDERS, compute_rdp_epsilon, renyi_divergences
from fl_dp.records import Entry

STEPS = [(0.01, 1.0), (0.5, 20.0), (1e-4, 0.5), (0.1, 0.3), (0.9, 1.0), (1e-3, 100.0)]


def _exact_log_moment(q: float, s: float, order: float) -> mpmath.mpf:
    """log A_a by quadrature with 20 digits."""
    with mpmath.workdps(20):
        q, s, order = mpmath.mpf(q), mpmath.mpf(s), mpmath.mpf(order)
        peak = order / s

        def integrand(x):
            return mpmath.npdf(x) * (1 - q + q * mpmath.exp((x - 1 / (2 * s)) / s)) ** order

        return mpmath.log(
            mpmath.quad(integrand, sorted([-30, -8, -3, 0, 3, 8, peak - 6, peak, peak + 6, peak + 40]))
        )


@pytest.mark.parametrize("order", [1.1, 3.7, 40.0])
@pytest.mark.parametrize(("q", "s"), STEPS)
def test_an_upper_bound_of_the_integral_and_close_to_it(q, s, order):
    moment = (order - 1) * float(renyi_divergences(q, s, np.array([order]))[0])
    exact = float(_exact_log_moment(q, s, order))
    assert exact <= moment <= exact * (1 + 1e-9) + 1e-10


@pytest.mark.parametrize("s", [0.1, 1.0, 30.0])
def test_without_sampling_it_is_the_gaussian_mechanism(s):
    assert renyi_divergences(1.0, s, ORDERS) == pytest.approx(ORDERS / (2 * s**2), rel=1e-12)


def test_no_order_fails_and_nothing_is_printed(caplog):
    """Rates near one half with much noise are where the series of others do not converge."""
    with caplog.at_level(logging.WARNING):
        for q in (1e-7, 0.01, 0.49, 0.5, 0.51, 0.9, 0.999999):
            for s in (0.0625, 1.0, 1000.0):
                assert np.isfinite(renyi_divergences(q, s, ORDERS)).all()
    assert not caplog.records


def test_where_the_total_variation_is_within_delta_epsilon_is_zero():
    """One step so weak that the distributions differ by less than delta: TV = 2 Phi(1 / 2s) - 1 = 4e-4."""
    assert math.erf(1 / (2 * math.sqrt(2) * 1000)) < 4e-4
    assert compute_rdp_epsilon((Entry(1.0, 1000.0, 1),), 0.01) == 0.0
    assert compute_rdp_epsilon((Entry(1.0, 1000.0, 1),), 1e-4) > 0.0
