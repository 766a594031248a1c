"""The third opinion: published values, the exact Gaussian mechanism as a floor, and what it refuses."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm

from fl_dp.accounting.calibration import calibrate_noise, steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.errors import AccountingError
from fl_dp.records import Entry


@pytest.mark.parametrize(
    ("noise", "sample_rate", "steps", "published"),
    [
        (0.8, 0.001, 100, 0.270403364058),
        (0.8, 0.05, 100, 6.741051939414),
        (3.0, 0.2, 100, 3.381220510222),
        (2.0, 0.05, 1000, 4.172799866689),
    ],
)
def test_published_upper_estimates(noise, sample_rate, steps, published):
    """pytorch/opacus, prv_accountant.py of its tests, at delta 1e-6: computed with Microsoft's accountant."""
    epsilon = compute_epsilon([Entry(sample_rate, noise, steps)], 1e-6, "prv")
    assert published - 0.011 < epsilon < published + 1e-3


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 100), (20.0, 1000)])
def test_never_below_the_exact_gaussian_mechanism(noise, steps):
    from dp_accounting import get_epsilon_gaussian

    exact = get_epsilon_gaussian(noise / math.sqrt(steps), 1e-5)
    assert exact <= compute_epsilon([Entry(1.0, noise, steps)], 1e-5, "prv") <= exact + 0.0205


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(0.01, 0.6, 1)],
        [Entry(0.01, 1.0, 500), Entry(0.05, 2.0, 300), Entry(0.5, 9.0, 30)],
        [Entry(0.5, 3.0, 40)],
        [Entry(0.9, 1.2, 2)],
    ],
    ids=str,
)
def test_it_agrees_with_pld(entries):
    pld, prv = (compute_epsilon(entries, 1e-5, accountant) for accountant in ("pld", "prv"))
    assert pld * (1 - 1e-3) <= prv <= pld + 0.0205


def test_a_step_too_weak_to_show_costs_its_error_at_most():
    assert 0.0 <= compute_epsilon([Entry(1e-4, 5.0, 1)], 1e-2, "prv") <= 0.01


def test_adding_a_record_is_looked_at_as_well_as_removing_one():
    """Their distributions differ, and neither is skipped."""
    from fl_dp.accounting.accountants.prv import _Loss

    removal, addition = _Loss.removal(Entry(0.3, 0.8, 1)), _Loss.addition(Entry(0.3, 0.8, 1))
    assert removal.cdf(0.3) < addition.cdf(0.3) == 1.0 - addition.cdf(-1e9) - (1.0 - addition.cdf(0.3))
    assert removal.partial_mean(-50, 50) > 0 > -addition.partial_mean(-50, 50)


@pytest.mark.parametrize(("least", "largest"), [(-50.0, 50.0), (-0.2, 0.5), (0.1, 3.0)])
def test_the_mean_of_a_part_of_the_losses_is_its_integral(least, largest):
    from fl_dp.accounting.accountants.prv import _Loss

    q, s = 0.3, 0.8
    step = StepLoss(q, s)
    x = np.linspace(-12 * s, 1 + 12 * s, 400_001)
    without = norm.pdf(x, 0, s) * (x[1] - x[0])
    with_record = (1 - q) * without + q * norm.pdf(x, 1, s) * (x[1] - x[0])
    entry, loss = Entry(q, s, 1), step.loss(x)
    for direction, losses, chance in (
        (_Loss.removal(entry), loss, with_record),
        (_Loss.addition(entry), -loss, without),
    ):
        expected = (losses * chance)[(losses >= least) & (losses <= largest)].sum()
        assert direction.partial_mean(least, largest) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(
    ("entry", "delta", "words"),
    [
        (Entry(0.1, 1.0, 100), 1e-12, "delta=1e-12 is too small"),
        (Entry(1e-3, 5.0, 100_000), 9.5e-10, "is too small"),  # by what the transforms' rounding may take
        (Entry(1.0, 0.032, 1), 1e-7, "losses up to"),
        (Entry(0.01, 1.0, 900_000), 1e-5, "900000 steps"),
    ],
)
def test_what_its_grid_cannot_resolve_is_refused(entry, delta, words):
    with pytest.raises(AccountingError, match=rf"'prv' cannot resolve .*{words}.*; take 'pld' or 'rdp'"):
        compute_epsilon([entry], delta, "prv")


def test_calibration_with_it_stays_within_the_budget():
    noise = calibrate_noise(0.05, 60, 3.0, 1e-5, accountant="prv")
    assert compute_epsilon([Entry(0.05, noise, 60)], 1e-5, "prv") <= 3.0
    assert noise == pytest.approx(calibrate_noise(0.05, 60, 3.0, 1e-5), rel=0.01)
    assert steps_that_fit(0.05, noise, 70, 3.0, 1e-5, accountant="prv") == 60


def test_torch_and_opacus_are_loaded_only_when_it_is_asked():
    heavy = "{'torch', 'opacus', 'scipy'}"
    code = f"import sys, fl_dp.accounting.accountants.prv; print({heavy} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
