"""The bound of epsilon: the paper's own numbers, and coverage that is computed, not sampled."""

import numpy as np
import pytest
from scipy.stats import binom

from fl_dp.audit.bound import epsilon_lower_bound, p_value
from fl_dp.errors import ConfigError


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
