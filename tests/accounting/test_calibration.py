"""Calibration lands on the safe side of the budget, close to it, or says that it cannot."""

import pytest

from fl_dp.accounting.accountants import compute_epsilon
from fl_dp.accounting.calibration import calibrate_noise, steps_that_fit
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

SPENT = (Entry(0.05, 2.0, 40),)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("spent", [(), SPENT])
@pytest.mark.parametrize(
    ("sample_rate", "steps", "epsilon"), [(0.05, 60, 3.0), (0.01, 10, 8.0), (1.0, 10, 1.0)]
)
def test_the_noise_is_enough_and_a_thousandth_less_is_not(sample_rate, steps, epsilon, spent, accountant):
    noise = calibrate_noise(sample_rate, steps, epsilon, 1e-5, spent=spent, accountant=accountant)

    def cost(noise_multiplier: float) -> float:
        return compute_epsilon([*spent, Entry(sample_rate, noise_multiplier, steps)], 1e-5, accountant)

    assert cost(noise) <= epsilon < cost(noise * (1 - 2e-3))
    assert len(f"{noise:g}".replace(".", "").lstrip("0")) <= 5


def test_opacus_finds_the_same_noise():
    """pytorch/opacus, accountants_test.py: epsilon 8, 2,000 steps; its own tolerance is 0.01 in epsilon."""
    assert calibrate_noise(0.04, 2000, 8.0, 1e-5, accountant="rdp") == pytest.approx(1.3562, rel=5e-3)


def test_a_budget_without_bounds_still_gets_some_noise():
    assert calibrate_noise(0.001, 1, 90.0, 1e-5, accountant="rdp") >= 1 / 16


def test_a_spent_budget_cannot_be_calibrated_for():
    with pytest.raises(AccountingError, match=r"is spent already\. Plan fewer steps"):
        calibrate_noise(0.05, 10, 0.1, 1e-5, spent=SPENT)


def test_a_plan_that_no_noise_serves_is_refused():
    with pytest.raises(AccountingError, match="No noise multiplier up to 8192"):
        calibrate_noise(1.0, 1000, 1e-4, 1e-9, accountant="rdp")


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("spent", [(), SPENT])
def test_the_steps_fit_and_one_more_does_not(spent, accountant):
    steps = steps_that_fit(0.1, 1.0, 500, 3.0, 1e-5, spent=spent, accountant=accountant)

    def cost(count: int) -> float:
        return compute_epsilon([*spent, Entry(0.1, 1.0, count)], 1e-5, accountant)

    assert 0 < steps < 500
    assert cost(steps) <= 3.0 < cost(steps + 1)
    assert steps_that_fit(0.1, 1.0, steps, 3.0, 1e-5, spent=spent, accountant=accountant) == steps


@pytest.mark.parametrize("planned", [0, 1, 50])
def test_after_the_budget_nothing_fits(planned):
    assert steps_that_fit(0.1, 1.0, planned, 0.1, 1e-5, spent=SPENT) == 0


def test_a_plan_of_a_billion_steps_is_cut_to_what_fits():
    few = steps_that_fit(0.1, 1.0, 500, 3.0, 1e-5, accountant="rdp")
    assert steps_that_fit(0.1, 1.0, 10**9, 3.0, 1e-5, accountant="rdp") == few
