"""The search among members of a family: the least noise that is refuted, wherever it lies."""

import math

import numpy as np
import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit.noise_family import NoiseFamily, delta_bounds
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

FAMILY = NoiseFamily(Entry(0.5, 2.0, 4), 1e-5)


def _refuting(noise_multiplier):
    """A test that refutes this member, and all with more noise."""
    limit = FAMILY.trade_off(noise_multiplier).most_right()
    return lambda trade_off: trade_off.most_right() <= limit


@pytest.mark.parametrize("noise_multiplier", [0.4, 1.9, 2.0, 2.1, 17.0])
def test_the_least_member_that_is_refuted_is_found_from_above(noise_multiplier):
    found = FAMILY.least_refuted(_refuting(noise_multiplier))
    assert noise_multiplier * (1 - 1e-9) <= found <= 1.002 * noise_multiplier


def test_nothing_refuted_is_inf_and_everything_ends_where_epsilon_does():
    assert FAMILY.least_refuted(lambda trade_off: False) == math.inf
    assert FAMILY.epsilon(FAMILY.least_refuted(lambda trade_off: True)) < math.inf


def test_its_epsilon_is_the_accountant_s():
    assert FAMILY.epsilon(2.0) == compute_epsilon([FAMILY.entry], 1e-5)


ROUNDING = 1e-14  # of numbers near 1
EPSILONS = np.linspace(-6.0, 6.0, 241)


@pytest.mark.parametrize(("noise_multiplier", "steps"), [(0.8, 1), (3.0, 9), (20.0, 400)])
def test_the_gaussian_mechanism_in_closed_form(noise_multiplier, steps):
    exact = StepLoss(1.0, noise_multiplier / np.sqrt(steps)).removal_delta(EPSILONS)
    bounds = delta_bounds((Entry(1.0, noise_multiplier, steps),), EPSILONS)
    assert np.all(bounds >= exact - ROUNDING)
    assert np.all(bounds <= exact * 1.01 + 1e-3)


@pytest.mark.parametrize("sample_rate", [0.02, 0.3])
def test_one_sampled_step_in_both_directions(sample_rate):
    step = StepLoss(sample_rate, 0.7)
    exact = np.maximum(step.removal_delta(EPSILONS), step.addition_delta(EPSILONS))
    bounds = delta_bounds((Entry(sample_rate, 0.7, 1),), EPSILONS)
    assert np.all(bounds >= exact - ROUNDING)
    assert np.all(bounds[EPSILONS >= 0] <= exact[EPSILONS >= 0] + 1e-3)


@pytest.mark.parametrize(
    ("entries", "delta"),
    [
        ((Entry(0.1, 1.0, 30), Entry(0.2, 2.0, 10)), 1e-5),
        ((Entry(0.01, 5.0, 100_000),), 1e-9),  # the rounding errors, which are paid for, may be 2e-11
    ],
)
def test_at_the_epsilon_of_a_delta_it_is_that_delta(entries, delta):
    epsilon = compute_epsilon(entries, delta)
    assert delta_bounds(entries, np.array([epsilon]))[0] == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("entries", [(), (Entry(0.1, 0.0, 1),)], ids=["none", "unprotected"])
def test_without_noise_there_is_no_trade_off(entries):
    with pytest.raises(AccountingError, match="each with noise"):
        delta_bounds(entries, EPSILONS)
