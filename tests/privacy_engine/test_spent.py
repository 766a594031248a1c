"""What was spent says what has to be assumed for it."""

import math

import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.privacy_engine.spent import PrivacySpent, privacy_spent
from fl_dp.records import Entry


@pytest.mark.parametrize("sampling", ["seen", "assumed"])
def test_the_price_is_the_accountant_s_and_the_assumption_goes_with_it(sampling):
    entries = [Entry(0.01, 1.0, 50), Entry(0.01, 0.5, 2)]
    expected = compute_epsilon(entries, 1e-5, "rdp")
    assert privacy_spent(entries, 1e-5, "rdp", sampling) == PrivacySpent(expected, 1e-5, 52, sampling)
    assert privacy_spent([], 1e-5, "rdp", sampling) == PrivacySpent(0.0, 1e-5, 0, sampling)
    infinite = privacy_spent([Entry(0.01, 1.0, 2), Entry(0.01, 0.0, 3)], 1e-5, "rdp", sampling)
    assert infinite == PrivacySpent(math.inf, 1e-5, 5, sampling)


def test_the_words():
    assert str(PrivacySpent(1.25, 1e-5, 30, "seen")) == (
        "epsilon 1.25 at delta 1e-05 after 30 steps, arithmetic steady-rows, each of them seen to be a "
        "Poisson draw"
    )
    assert str(PrivacySpent(1.25, 1e-5, 30, "assumed")) == (
        "epsilon 1.25 at delta 1e-05 after 30 steps, arithmetic steady-rows, ASSUMED that each batch was "
        "a Poisson draw: no sampler was attached to see it"
    )
