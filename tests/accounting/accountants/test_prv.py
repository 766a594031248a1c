"""The third opinion: beside the exact Gaussian mechanism and PLD, and what it refuses."""

import math

import pytest

from fl_dp.accounting.calibration import calibrate_noise, steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.errors import AccountingError
from fl_dp.records import Entry


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
    assert steps_that_fit(Entry(0.05, noise, 70), 3.0, 1e-5, accountant="prv") == 60
