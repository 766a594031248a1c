"""The loss of a pass of random allocation: against quadrature, the Gaussian, chance, and PLD_accounting."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fl_dp.accounting import pass_loss
from fl_dp.accounting.accountants.pld import compose
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.pass_loss import PassLoss
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

# Lower and upper bound of epsilon at delta 1e-5 by PLD_accounting 2.0, epsilon_accuracy 0.02.
THEIRS = [(5.3657, 5.3707), (2.7028, 2.7209), (2.6304, 2.6401), (1.3428, 1.3567)]
EPSILONS = np.array([-1.0, -0.1, 0.0, 0.05, 0.3, 1.0, 2.0])


def passes(t: int, sigma: float, count: int) -> Entry:
    return Entry(1 / t, sigma, t * count, pass_steps=t)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0, 40.0])
def test_one_step_is_a_gaussian(sigma):
    """The grid and the tails alone: a pass of one step has a closed form."""
    ours, exact = PassLoss(1, sigma), StepLoss(1.0, sigma)
    for name in ("removal_delta", "addition_delta"):
        found, truth = getattr(ours, name)(EPSILONS / sigma), getattr(exact, name)(EPSILONS / sigma)
        assert (found >= truth).all()
        assert (found <= 1.01 * truth + 1e-18).all()


def delta_of_two_steps(sigma: float, epsilon: float, *, adding: bool) -> float:
    """By its definition, E (S / 2 - e^eps)+ or E (1 - e^eps S / 2)+ under Q: the inner integral is closed."""

    def inner(x: float) -> float:
        first = math.exp((x - 0.5) / sigma**2)
        needed = 2 * math.exp(-epsilon if adding else epsilon) - first
        y = 0.5 + sigma**2 * math.log(needed) if needed > 0 else -math.inf
        if adding:
            below, shifted = norm.cdf(y, 0, sigma), norm.cdf(y, 1, sigma)
            return norm.pdf(x, 0, sigma) * (below - math.exp(epsilon) / 2 * (first * below + shifted))
        above, shifted = norm.sf(y, 0, sigma), norm.sf(y, 1, sigma)
        return norm.pdf(x, 0, sigma) * ((first / 2 - math.exp(epsilon)) * above + shifted / 2)

    bend = 0.5 + sigma**2 * (math.log(2) + (-epsilon if adding else epsilon))
    parts = [-12 * sigma, bend] if adding else [-12 * sigma, bend, bend + 14 * sigma + 3]
    return sum(quad(inner, *ends, epsabs=1e-15, epsrel=1e-11, limit=400)[0] for ends in pairwise(parts))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("adding", [False, True])
def test_two_steps_are_as_by_quadrature(sigma, adding):
    loss = PassLoss(2, sigma)
    for epsilon in (0.0, 0.3, 0.6, 1.5):
        found = float((loss.addition_delta if adding else loss.removal_delta)(epsilon))
        truth = delta_of_two_steps(sigma, epsilon, adding=adding)
        assert truth - 1e-14 <= found <= 1.002 * truth + 1e-14


def losses_by_chance(t: int, sigma: float, count: int, trials: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Privacy losses of `count` passes: log(P / Q) of draws from P, and log(Q / P) of draws from Q."""
    with_record, without = np.zeros(trials), np.zeros(trials)
    for _ in range(count):
        x = sigma * rng.standard_normal((trials, t))
        without -= np.logaddexp.reduce((x - 0.5) / sigma**2, axis=1) - math.log(t)
        x[np.arange(trials), rng.integers(t, size=trials)] += 1.0
        with_record += np.logaddexp.reduce((x - 0.5) / sigma**2, axis=1) - math.log(t)
    return with_record, without


@pytest.mark.parametrize(("t", "sigma", "count"), [(11, 1.545, 9), (3, 1.5, 8), (60, 0.7, 1), (7, 1.2, 3)])
def test_no_delta_is_below_that_of_trials_by_more_than_chance(t, sigma, count):
    """The definition, by Monte Carlo: five standard errors below it is a mistake, as is 3 % above it."""
    rng, trials = np.random.default_rng(5), 100_000
    composed = compose((passes(t, sigma, count),))
    for losses, pld in zip(
        losses_by_chance(t, sigma, count, trials, rng), (composed._pmf_remove, composed._pmf_add), strict=True
    ):
        for epsilon in (0.2, 0.7, 1.5):
            each = np.maximum(-np.expm1(epsilon - losses), 0.0)
            error = each.std() / math.sqrt(trials)
            found = pld.get_delta_for_epsilon(epsilon)
            assert each.mean() - 5 * error - 1e-6 <= found <= 1.03 * each.mean() + 5 * error + 1e-6


@pytest.mark.parametrize(
    ("t", "sigma", "count", "least", "most", "poisson"),
    [
        (3, 1.5, 8, *THEIRS[0], 6.164),
        (11, 1.545, 9, *THEIRS[1], 3.033),
        (60, 0.7, 1, *THEIRS[2], 2.965),
        (29, 2.464, 20, *THEIRS[3], 1.392),
    ],
)
def test_epsilon_lies_between_the_bounds_of_pld_accounting(t, sigma, count, least, most, poisson):
    """PLD_accounting 2.0 gives both, by another discretisation (arXiv 2602.17284)."""
    epsilon = compute_epsilon([passes(t, sigma, count)], 1e-5)
    assert least <= epsilon <= most
    assert compute_epsilon([Entry(1 / t, sigma, t * count)], 1e-5) == pytest.approx(poisson, abs=1e-3)


def test_a_finer_grid_lowers_delta_by_less_than_a_hundredth(monkeypatch):
    usual = PassLoss(29, 1.3)
    found = usual.removal_delta(EPSILONS), usual.addition_delta(EPSILONS)
    monkeypatch.setattr(pass_loss, "_RESOLUTION", 0.005)
    fine = PassLoss(29, 1.3)
    for coarse, finer in zip(
        found, (fine.removal_delta(EPSILONS), fine.addition_delta(EPSILONS)), strict=True
    ):
        # rounding errors and tails are bounded by more on a finer grid
        assert (finer <= coarse * (1 + 1e-9) + 1e-17).all()
        assert (coarse <= 1.01 * finer + 1e-12).all()


@pytest.mark.parametrize(
    ("t", "sigma"), [(2, 0.05), (10_000, 1.0), (1000, 5000.0), (50, 0.04), (10_000, 0.0317)]
)
def test_extremes_have_an_answer_or_none(t, sigma):
    epsilon = compute_epsilon([passes(t, sigma, 1)], 1e-6)
    assert 0.0 <= epsilon <= math.inf


def test_what_is_cut_off_is_not_lost():
    """Both ends: what the expectation loses is infinite loss. Nothing at all left is delta 1."""
    masses = np.array([1e-23, 0.5, 0.5, 1e-23])
    before = pass_loss._Positive(-2, masses, 0.0, 0.0)
    after = pass_loss._trimmed(before, 1.0)
    assert len(after.masses) == 2
    assert after.lost >= masses[0] * math.exp(-2) + masses[-1] * (math.exp(1) - math.exp(0))
    coarse = pass_loss._log_normal(149.9, 31.0)  # of a pass of 10,000 steps with hardly any noise
    assert (coarse.first + len(coarse.masses) - 1) * 149.9 <= 600  # beyond, a mass that counts rounds to 0
    for name in ("removal_delta", "addition_delta"):
        assert (getattr(PassLoss(3, 0.01), name)(EPSILONS) == 1.0).all()


def test_other_accountants_refuse_passes():
    for accountant in ("rdp", "prv"):
        with pytest.raises(AccountingError, match="random allocation"):
            compute_epsilon([passes(4, 1.0, 1)], 1e-5, accountant)
