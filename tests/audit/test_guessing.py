"""From scores to a bound: below the truth nearly always, and not far below it."""

import numpy as np
import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit.guessing import find_epsilon
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry


def _gaussian(rng, canaries, noise_multiplier):
    included = rng.random(canaries) < 0.5
    return included + noise_multiplier * rng.standard_normal(canaries), included


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 2.0])
def test_the_gaussian_mechanism_is_never_overrated_and_a_good_part_of_it_is_found(noise_multiplier):
    rng = np.random.default_rng(1)
    found = [find_epsilon(*_gaussian(rng, 5000, noise_multiplier), 1e-5).epsilon for _ in range(20)]
    truth = compute_epsilon([Entry(1.0, noise_multiplier, 1)], 1e-5)
    assert max(found) < truth
    assert np.median(found) > 0.35 * truth


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_choice_among_several_numbers_of_guesses_is_paid_for(epsilon):
    """Randomized response, of scores without any more order: each number of guesses is tight by itself."""
    rng, runs, canaries = np.random.default_rng(2), 400, 640
    exceeds = 0
    for _ in range(runs):
        included = rng.random(canaries) < 0.5
        right = rng.random(canaries) < 1 / (1 + np.exp(-epsilon))
        scores = np.where(included == right, 1.0, -1.0) + 1e-3 * rng.standard_normal(canaries)
        exceeds += find_epsilon(scores, included, 0.0).epsilon > epsilon
    assert exceeds <= 0.05 * runs + 3 * np.sqrt(0.05 * 0.95 * runs)


def test_chance_finds_nothing_to_speak_of():
    rng = np.random.default_rng(3)
    included = rng.random(10_000) < 0.5
    assert find_epsilon(rng.standard_normal(10_000), included, 1e-5).epsilon < 0.2


def test_perfect_scores_are_all_right():
    included = np.random.default_rng(4).random(1000) < 0.5
    finding = find_epsilon(included.astype(float), included, 1e-5)
    assert finding.right == finding.guesses
    assert finding.epsilon > 4


@pytest.mark.parametrize("canaries", [2, 5])
def test_few_canaries_prove_nothing(canaries):
    included = np.arange(canaries) % 2 == 0
    assert find_epsilon(included.astype(float), included, 1e-5).epsilon <= 0.1


def test_one_canary_and_scores_that_are_not_finite_are_refused():
    with pytest.raises(ConfigError, match="canaries = 1"):
        find_epsilon(np.array([0.0]), np.array([True]), 1e-5)
    with pytest.raises(AccountingError, match="not finite"):
        find_epsilon(np.array([0.0, np.nan]), np.array([True, False]), 1e-5)
