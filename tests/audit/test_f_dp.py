"""The f-DP bounds: equal to a linear program over all outcomes, and never refuting what is true."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.audit.f_dp import TradeOff, refuted, refuted_by_runs
from fl_dp.errors import ConfigError


def _gaussian(noise_multiplier, lines=801):
    epsilons = np.linspace(-12, 12, lines)
    return TradeOff(epsilons, StepLoss(1.0, noise_multiplier).removal_delta(epsilons))


def _pure(epsilon):
    return TradeOff(np.array([-epsilon, epsilon]), np.array([1 - np.exp(-epsilon), 0.0]))


def _most_probable(canaries, guesses, right, trade_off):
    """max P[N >= right] over all distributions of N that the theorem's inequalities allow."""
    number = np.arange(guesses + 1)
    rows, limits = [], []
    for i in range(1, guesses + 1):
        correct = np.where(number >= i, number, 0) / canaries
        wrong = np.where(number >= i - 1, guesses - number, 0) / canaries
        for epsilon, delta in zip(trade_off.epsilons, trade_off.deltas, strict=True):
            rows.append(correct - np.exp(epsilon) * wrong)
            limits.append(delta)
    solved = linprog(
        -(number >= right).astype(float), A_ub=rows, b_ub=limits, A_eq=np.ones((1, guesses + 1)), b_eq=[1.0]
    )
    assert solved.success
    return -solved.fun


@pytest.mark.parametrize("trade_off", [_gaussian(1.0, 41), _gaussian(0.5, 41), _pure(1.0)])
@pytest.mark.parametrize(
    ("canaries", "guesses", "right"), [(12, 12, 10), (12, 12, 12), (20, 8, 7), (20, 8, 4), (30, 2, 2)]
)
def test_the_recursion_is_the_linear_program(trade_off, canaries, guesses, right):
    most = _most_probable(canaries, guesses, right, trade_off)
    least_wrong = trade_off.least_wrong()
    if most < 0.999:
        assert refuted(canaries, guesses, right, least_wrong, most + 1e-4)
    assert not refuted(canaries, guesses, right, least_wrong, most - 1e-4)


def test_the_least_wrong_of_a_gaussian_is_its_trade_off_s_inverse():
    least_wrong = _gaussian(1.0).least_wrong()
    for probability in (1e-4, 0.01, 0.3, 0.7, 0.99):
        exact = norm.cdf(norm.ppf(probability) - 1.0)
        assert least_wrong(probability) <= exact + 1e-12
        assert least_wrong(probability) == pytest.approx(exact, rel=1e-3)
    assert least_wrong(0.0) == 0.0


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 3.0])
def test_the_most_right_of_a_gaussian_is_that_of_a_test_at_one_half(noise_multiplier):
    expected = norm.cdf(0.5 / noise_multiplier)
    assert _gaussian(noise_multiplier).most_right() == pytest.approx(expected, rel=1e-3)
    assert _gaussian(noise_multiplier).most_right() >= expected * (1 - 1e-14)  # but for the last digit


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_randomized_response_is_refuted_as_seldom_as_the_level_says(epsilon):
    canaries, truth = 300, 1 / (1 + np.exp(-epsilon))
    least_wrong = _pure(epsilon).least_wrong()
    errs = [refuted(canaries, canaries, right, least_wrong, 0.05) for right in range(canaries + 1)]
    assert errs == sorted(errs)  # more right guesses are refuted if fewer are
    assert any(errs)
    assert binom.pmf(np.arange(canaries + 1), canaries, truth)[errs].sum() <= 0.05


@pytest.mark.parametrize("guesses", [1, 5, 40])
def test_coins_that_delta_reveals_and_that_are_then_guessed_refute_nothing(guesses):
    """Why guesses count as shares of all canaries: whoever may choose takes what was revealed."""
    canaries, delta = 40, 0.02
    revealed = binom.pmf(np.arange(canaries + 1), canaries, delta)
    least_wrong = TradeOff(np.array([0.0]), np.array([delta])).least_wrong()
    errs = 0.0
    for known, probability in enumerate(revealed):
        guessed = max(guesses - known, 0)
        right = np.arange(guessed + 1)
        refutes = [refuted(canaries, guesses, guesses - guessed + one, least_wrong, 0.05) for one in right]
        errs += probability * binom.pmf(right, guessed, 0.5)[refutes].sum()
    assert errs <= 0.05


def test_all_coins_at_once_are_paid_for():
    """With probability delta everything is published, and all guesses are right: this refutes nothing."""
    delta, canaries = 0.04, 200
    trade_off = TradeOff(np.array([0.0]), np.array([delta]))
    assert not refuted(canaries, canaries, canaries, trade_off.least_wrong(), delta - 1e-6)


def test_half_right_refutes_nothing_and_impossible_counts_are_refused():
    least_wrong = _gaussian(1.0).least_wrong()
    assert not refuted(1000, 1000, 500, least_wrong, 0.05)
    assert not refuted(1000, 1000, 0, least_wrong, 0.05)
    for canaries, guesses, right, level in (
        (10, 11, 1, 0.1),
        (10, 5, 6, 0.1),
        (10, 0, 0, 0.1),
        (10, 5, 5, 0.0),
    ):
        with pytest.raises(ConfigError, match="Expected"):
            refuted(canaries, guesses, right, least_wrong, level)


def test_runs_whose_canaries_all_agree_refute_no_more_often_than_the_level_says():
    """The worst within a run: all right, or none. 5 runs at 0.6 are all right more often than 1 in 20."""
    assert not refuted_by_runs([1.0] * 5, 0.6, 0.05)  # probability 0.078
    assert refuted_by_runs([1.0] * 6, 0.6, 0.05)  # probability 0.047
    assert not refuted_by_runs([1.0] * 60 + [0.0], 0.6, 0.05)


def test_runs_refute_the_truth_seldom_and_what_is_below_it_surely():
    rng = np.random.default_rng(0)
    audits = [rng.binomial(100, 0.6, 50) / 100 for _ in range(400)]
    assert np.mean([refuted_by_runs(shares, 0.6, 0.05) for shares in audits]) <= 0.05
    assert np.mean([refuted_by_runs(shares, 0.55, 0.05) for shares in audits]) > 0.95
    with pytest.raises(ConfigError, match="level"):
        refuted_by_runs([1.0], 0.5, 1.0)
