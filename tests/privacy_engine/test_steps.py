"""Steps are counted, and how many of them were seen; what they cost says what has to be assumed for it."""

import math

import pytest

from fl_dp import PoissonSampler
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.privacy_engine.steps import PrivacySpent, Steps, privacy_spent
from fl_dp.records import Entry


def test_only_steps_that_were_all_seen_are_seen():
    """By a sampler whose draws are everyone."""
    steps = Steps(10, 1.0)
    sampler = PoissonSampler(10, expected_batch_size=10, physical_batch_size=10, steps=5)
    steps.watch(sampler)
    assert steps.sampling == "seen"
    loop = sampler.logical_batches(sampler)
    for _ in range(2):
        list(next(loop))
        steps.take(10)
    assert (steps.taken, steps.sampling) == (2, "seen")
    steps.leave()
    assert steps.sampling == "seen"
    steps.take(10)
    assert (steps.taken, steps.sampling) == (3, "assumed")


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
        "epsilon 1.25 at delta 1e-05 after 30 steps, arithmetic steady-rows, each checked to be a "
        "Poisson draw"
    )
    assert str(PrivacySpent(1.25, 1e-5, 30, "assumed")) == (
        "epsilon 1.25 at delta 1e-05 after 30 steps, arithmetic steady-rows, ASSUMED that each batch was "
        "a Poisson draw: no sampler was attached to check it"
    )
