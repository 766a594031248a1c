"""From scores to a bound: below the truth nearly always, and not far below it."""

from types import SimpleNamespace

import numpy as np
import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit.f_dp import TradeOff
from fl_dp.audit.guessing import find_epsilon, find_epsilon_in_runs
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry


def _gaussian(rng, canaries, noise_multiplier):
    included = rng.random(canaries) < 0.5
    return included + noise_multiplier * rng.standard_normal(canaries), included


def _family(noise_multiplier):
    return NoiseFamily(Entry(1.0, noise_multiplier, 1), 1e-5)


@pytest.mark.parametrize("noise_multiplier", [0.6, 1.5])
def test_a_twentieth_of_audits_at_most_overrates_and_a_good_part_is_found(noise_multiplier):
    rng, family = np.random.default_rng(5), _family(noise_multiplier)
    audits = [_gaussian(rng, 500, noise_multiplier) for _ in range(200)]
    found = [find_epsilon(*audit, family).epsilon for audit in audits]
    truth = compute_epsilon([family.entry], 1e-5)
    assert np.mean(np.array(found) > truth) <= 0.05
    assert np.median(found) > 0.35 * truth


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
    rng, runs, canaries, refuted = np.random.default_rng(2), 400, 640, 0
    truth = TradeOff(np.array([-epsilon, epsilon]), np.array([1 - np.exp(-epsilon), 0.0]))
    family = SimpleNamespace(
        epsilon=lambda noise: epsilon,
        trade_off=lambda noise: truth,
        least_refuted=lambda refutes: 1.0 if refutes(truth) else np.inf,
    )
    for _ in range(runs):
        included = rng.random(canaries) < 0.5
        right = rng.random(canaries) < 1 / (1 + np.exp(-epsilon))
        scores = np.where(included == right, 1.0, -1.0) + 1e-3 * rng.standard_normal(canaries)
        refuted += find_epsilon(scores, included, family).epsilon > 0
    assert refuted <= 0.05 * runs + 3 * np.sqrt(0.05 * 0.95 * runs)


def test_chance_finds_nothing_to_speak_of():
    rng = np.random.default_rng(3)
    included = rng.random(10_000) < 0.5
    scores = rng.standard_normal(10_000)
    assert find_epsilon(scores, included, _family(1.0)).epsilon < 0.2
    assert find_epsilon_in_runs([(scores, included)] * 3, _family(1.0)).epsilon == 0.0


def test_perfect_scores_are_all_right():
    included = np.random.default_rng(4).random(1000) < 0.5
    finding = find_epsilon(included.astype(float), included, _family(1.0))
    assert finding.right == finding.guesses
    assert finding.epsilon > 4


@pytest.mark.parametrize("canaries", [2, 5])
def test_few_canaries_prove_nothing(canaries):
    included = np.arange(canaries) % 2 == 0
    assert find_epsilon(included.astype(float), included, _family(1.0)).epsilon <= 0.1


def test_one_canary_and_scores_that_are_not_finite_are_refused():
    with pytest.raises(ConfigError, match="canaries = 1"):
        find_epsilon(np.array([0.0]), np.array([True]), _family(1.0))
    with pytest.raises(AccountingError, match="not finite"):
        find_epsilon(np.array([0.0, np.nan]), np.array([True, False]), _family(1.0))
