"""From scores to a bound: below the truth nearly always, and not far below it."""

import numpy as np
import pytest
from scipy.stats import binom

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit.guessing import (
    epsilon_lower_bound,
    find_epsilon,
    find_epsilon_by_f_dp,
    find_epsilon_in_runs,
    p_value,
)
from fl_dp.audit.noise_family import NoiseFamily
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


def _family(noise_multiplier):
    return NoiseFamily(Entry(1.0, noise_multiplier, 1), 1e-5)


@pytest.mark.parametrize("noise_multiplier", [0.6, 1.5])
def test_f_dp_overrates_in_at_most_a_twentieth_of_audits_and_finds_more_than_steinke(noise_multiplier):
    rng, family = np.random.default_rng(5), _family(noise_multiplier)
    audits = [_gaussian(rng, 500, noise_multiplier) for _ in range(200)]
    found = [find_epsilon_by_f_dp(*audit, family).epsilon for audit in audits]
    steinke = [find_epsilon(*audit, 1e-5).epsilon for audit in audits[:50]]
    truth = compute_epsilon([family.entry], 1e-5)
    assert np.mean(np.array(found) > truth) <= 0.05
    assert np.median(found) > 1.3 * np.median(steinke) > 0


@pytest.mark.parametrize("noise_multiplier", [0.6, 1.5])
def test_300_runs_find_nine_tenths_and_are_no_more_often_wrong(noise_multiplier):
    rng, family = np.random.default_rng(6), _family(noise_multiplier)
    audits = [[_gaussian(rng, 300, noise_multiplier) for _ in range(300)] for _ in range(20)]
    found = np.array([find_epsilon_in_runs(runs, family).epsilon for runs in audits])
    truth = compute_epsilon([family.entry], 1e-5)
    assert np.median(found) > 0.85 * truth
    assert np.mean(found > truth) <= 0.05


@pytest.mark.parametrize("runs", [1, 20])
def test_runs_of_which_each_publishes_all_or_nothing_are_paid_for(runs):
    """The worst dependence there is: in a run all coins are seen together, or none."""
    rng, family, wrong = np.random.default_rng(7), _family(2.0), 0
    most = family.trade_off(2.0).most_right()
    for _ in range(200):
        included = [rng.random(100) < 0.5 for _ in range(runs)]
        seen = rng.random(runs) < 2 * most - 1  # all right if seen, else half: the expected share is `most`
        scores = [np.where(s, i, rng.random(100)).astype(float) for s, i in zip(seen, included, strict=True)]
        wrong += find_epsilon_in_runs(
            list(zip(scores, included, strict=True)), family
        ).epsilon > family.epsilon(2)
    assert wrong <= 0.05 * 200


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
    scores = rng.standard_normal(10_000)
    assert find_epsilon(scores, included, 1e-5).epsilon < 0.2
    assert find_epsilon_by_f_dp(scores, included, _family(1.0)).epsilon < 0.2
    assert find_epsilon_in_runs([(scores, included)] * 3, _family(1.0)).epsilon == 0.0


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


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "published"),
    [
        (1000, 100, 75, 1e-4, 0.673),  # appendix D
        (100_000, 1510, 1439, 1e-5, 2.675),  # section 7, cut, not rounded
    ],
)
def test_values_that_the_paper_prints(canaries, guesses, right, delta, published):
    assert epsilon_lower_bound(canaries, guesses, right, delta) == pytest.approx(published, abs=1e-3)


def _bounds(canaries, delta):
    """The bound for every number of right guesses, 0..canaries."""
    return np.array([epsilon_lower_bound(canaries, canaries, right, delta) for right in range(canaries + 1)])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomized_response_is_seldom_overrated_and_nearly_reached(epsilon):
    canaries = 500
    truth = 1 / (1 + np.exp(-epsilon))
    probabilities, bounds = binom.pmf(np.arange(canaries + 1), canaries, truth), _bounds(canaries, 0.0)
    exceeds = probabilities[bounds > epsilon].sum()
    assert 0.02 < exceeds <= 0.05  # the theorem is tight here: only the lattice keeps it below 5 %
    deviation = 1 / np.sqrt(canaries * truth * (1 - truth))  # of the best estimate of epsilon there is
    assert probabilities @ bounds > epsilon - 2.2 * deviation


@pytest.mark.parametrize("together", [False, True], ids=["each coin alone", "all coins at once"])
def test_what_delta_may_reveal_is_paid_for(together):
    """Randomized response that also publishes coins with probability delta is (epsilon, delta)-DP."""
    canaries, epsilon, delta = 200, 1.0, 0.02 if together else 1e-3
    truth = 1 / (1 + np.exp(-epsilon))
    bounds = _bounds(canaries, delta)
    if together:
        exceeds = (1 - delta) * binom.pmf(np.arange(canaries + 1), canaries, truth)
        exceeds[-1] += delta
    else:
        exceeds = binom.pmf(np.arange(canaries + 1), canaries, delta + (1 - delta) * truth)
    assert exceeds[bounds > epsilon].sum() <= 0.05


def test_the_p_value_is_the_definition_written_out():
    canaries, guesses, right, epsilon, delta = 50, 20, 16, 0.7, 1e-3
    w = binom(guesses, np.exp(epsilon) / (1 + np.exp(epsilon)))

    def between(low, high):
        return sum(w.pmf(k) for k in range(max(low, 0), high))

    gain = max(between(right - i, right) / i for i in range(1, canaries + 1))
    expected = between(right, guesses + 1) + 2 * canaries * delta * gain
    assert p_value(canaries, guesses, right, epsilon, delta) == pytest.approx(expected, rel=1e-9)


def test_the_bound_grows_with_right_guesses_and_falls_with_delta_and_confidence():
    assert np.all(np.diff(_bounds(100, 1e-5)) >= 0)
    by_delta = [epsilon_lower_bound(1000, 100, 80, delta) for delta in (0.0, 1e-6, 1e-5, 1e-4, 1e-2, 1.0)]
    by_confidence = [epsilon_lower_bound(1000, 100, 80, 0.0, level) for level in (0.5, 0.9, 0.95, 0.999)]
    assert by_delta == sorted(by_delta, reverse=True)
    assert by_confidence == sorted(by_confidence, reverse=True)
    assert by_delta[-1] == 0.0


def test_half_right_proves_nothing():
    assert epsilon_lower_bound(1000, 100, 50, 0.0) == 0.0
    assert epsilon_lower_bound(1000, 100, 0, 0.0) == 0.0
    assert p_value(10, 0, 0, 1.0, 1e-5) == 1.0


def test_impossible_counts_and_confidences_are_refused():
    with pytest.raises(ConfigError, match="right=11"):
        p_value(100, 10, 11, 1.0, 0.0)
    with pytest.raises(ConfigError, match="guesses=101"):
        p_value(100, 101, 11, 1.0, 0.0)
    with pytest.raises(ConfigError, match="confidence"):
        epsilon_lower_bound(100, 10, 9, 0.0, 1.0)
