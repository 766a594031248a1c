"""A person at several clients of one sum: the mixture's loss, against 50 digits, dp_accounting and sense."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
from scipy.stats import binom, norm

from fl_dp.accounting.accountants import pld
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.mixture_loss import MixtureLoss
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.records import Entry

STEPS = [(0.1, 1.0, 2), (1e-4, 0.6, 3), (0.5, 5.0, 4), (0.01, 20.0, 12), (1e-6, 1.0, 2), (0.999, 2.0, 3)]
EPSILONS = np.array([-3.0, -0.5, -1e-3, 0.0, 1e-9, 1e-4, 0.03, 0.4, 1.0, 3.0, 8.0])


def exact(q: float, s: float, m: int, epsilon: float, *, adding: bool) -> mpmath.mpf:
    """The hockey-stick divergence, from its definition: the best half-line, found by bisection."""
    with mpmath.workdps(50):
        q, s, e = mpmath.mpf(q), mpmath.mpf(s), mpmath.mpf(epsilon)
        weights = [mpmath.binomial(m, i) * q**i * (1 - q) ** (m - i) for i in range(m + 1)]

        def ratio(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.fsum(
                b * mpmath.exp((x - mpmath.mpf(i) / 2) * i / s**2) for i, b in enumerate(weights)
            )

        def left_of(x: mpmath.mpf, mean: int) -> mpmath.mpf:
            return mpmath.ncdf((x - mean) / s)

        wanted = mpmath.exp(-e if adding else e)
        if wanted <= weights[0]:  # every outcome is likelier than that
            return mpmath.mpf(0) if adding else 1 - mpmath.exp(e)
        low, high = mpmath.mpf(-(10**4)), mpmath.mpf(10**4)
        for _ in range(190):
            middle = (low + high) / 2
            low, high = (middle, high) if ratio(middle) < wanted else (low, middle)
        with_ = mpmath.fsum(b * left_of(low, i) for i, b in enumerate(weights))
        without = left_of(low, 0)
        if adding:
            return without - mpmath.exp(e) * with_
        return (1 - with_) - mpmath.exp(e) * (1 - without)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("adding", [False, True])
def test_delta_is_that_of_50_digits(step, adding):
    """Never below by more than the error that is paid for, and a tenth of it is what was seen."""
    loss = MixtureLoss(*step)
    found = (loss.addition_delta if adding else loss.removal_delta)(EPSILONS)
    for epsilon, delta in zip(EPSILONS, found, strict=True):
        truth = exact(*step, epsilon, adding=adding)
        paid = loss.evaluation_error() + (0.0 if epsilon >= 0 else 2.3e-16)
        assert abs(float(truth - mpmath.mpf(float(delta)))) <= paid / (10 if epsilon >= 0 else 1)


def test_one_copy_is_the_usual_step():
    for q, s in ((0.1, 1.0), (1e-3, 0.7), (0.9, 6.0)):
        mixture, step = MixtureLoss(q, s, 1), StepLoss(q, s)
        for name in ("removal_delta", "addition_delta"):
            ours, usual = getattr(mixture, name)(EPSILONS), getattr(step, name)(EPSILONS)
            assert np.abs(ours - usual).max() <= 2e-15


@pytest.mark.parametrize("mechanism", [(0.1, 2.0, 100, 2), (0.5, 4.0, 50, 3), (0.2, 8.0, 300, 5)])
def test_epsilon_is_dp_accountings(mechanism):
    q, s, steps, copies = mechanism
    entry = Entry(q, s, steps, 1, copies)
    theirs = from_mixture_gaussian_mechanism(
        s,
        list(range(copies + 1)),
        list(binom.pmf(range(copies + 1), copies, q)),
        value_discretization_interval=pld._grid_interval((entry,)) / 4,
    )
    truth = theirs.self_compose(steps).get_epsilon_for_delta(1e-5)
    assert truth * (1 - 1e-5) <= compute_epsilon((entry,), 1e-5) <= truth * 1.001


def test_adding_epsilons_is_too_little_for_a_person_at_several_clients():
    """The example of docs/accounting.md: alone 2.75; at two clients 6.13 and not 5.5, at three 9.99."""
    one, two, three = (compute_epsilon((Entry(0.1, 4.845, 1000, 8, m),), 1e-5) for m in (1, 2, 3))
    assert one == pytest.approx(2.75, abs=0.005)
    assert two == pytest.approx(6.13, abs=0.01)
    assert three == pytest.approx(9.99, abs=0.015)
    assert (two, three) > (2 * one, 3 * one)


def test_without_sampling_all_copies_are_there():
    alone = compute_epsilon((Entry(1.0, 2.0, 10),), 1e-5)
    assert compute_epsilon((Entry(1.0, 6.0, 10, 1, 3),), 1e-5) == pytest.approx(alone, rel=1e-9)
    nearly = compute_epsilon((Entry(1 - 1e-12, 6.0, 10, 1, 3),), 1e-5)
    assert nearly == pytest.approx(alone, rel=1e-3)


def test_plain_and_shared_steps_compose():
    plain, mixed, copied = (
        compute_epsilon(entries, 1e-5)
        for entries in (
            (Entry(0.1, 2.0, 100),),
            (Entry(0.1, 2.0, 50), Entry(0.1, 2.0, 50, 8, 2)),
            (Entry(0.1, 2.0, 100, 1, 2),),
        )
    )
    assert plain < mixed < copied


@pytest.mark.parametrize("rates", [(0.1, 0.02), (0.3, 0.3, 0.01), (0.5, 0.4, 0.3, 0.2)])
def test_clients_of_different_rates_are_dominated_by_the_largest_rate(rates):
    """At every epsilon and in both directions: Binomial(m, largest) bounds the Poisson binomial of the rates.

    The divergence of the latter is taken from its definition, over a fine grid of half-lines: a lower bound.
    """
    s, m = 1.3, len(rates)
    weights = np.zeros(m + 1)
    for present in itertools.product((0, 1), repeat=m):
        weights[sum(present)] += math.prod(q if i else 1 - q for q, i in zip(rates, present, strict=True))
    x = np.linspace(-15, 20, 20001)
    with_ = sum(b * norm.cdf((x - i) / s) for i, b in enumerate(weights))
    with_beyond = sum(b * norm.sf((x - i) / s) for i, b in enumerate(weights))
    without, without_beyond = norm.cdf(x / s), norm.sf(x / s)
    bound, less = MixtureLoss(max(rates), s, m), MixtureLoss(sum(rates) / m, s, m)
    below_some = False
    for epsilon in np.linspace(-2, 4, 25):
        removal = (with_beyond - math.exp(epsilon) * without_beyond).max()
        addition = (without - math.exp(epsilon) * with_).max()
        assert bound.removal_delta(epsilon) >= removal - 1e-14
        assert bound.addition_delta(epsilon) >= addition - 1e-14
        below_some |= bool(less.removal_delta(epsilon) < removal - 1e-9)
        below_some |= bool(less.addition_delta(epsilon) < addition - 1e-9)
    assert below_some  # the mean rate is no bound


def test_the_ends_leave_out_no_more_than_a_tail():
    for q, s, m in STEPS:
        loss = MixtureLoss(q, s, m)
        least, largest = loss.ends(9.0)
        assert loss.removal_delta(largest) <= 1.2e-19
        assert loss.addition_delta(-least) <= 1.2e-19 or -least >= -m * math.log1p(-q)


def test_hardly_any_noise_and_many_copies_are_infinite_and_never_raise():
    for entry in (Entry(0.01, 0.05, 10, 1, 50), Entry(1.0, 1e-200, 1, 1, 2), Entry(1e-300, 1e-3, 3, 2, 100)):
        assert compute_epsilon((entry,), 1e-5) >= 0.0
    assert compute_epsilon((Entry(0.5, 0.05, 10, 1, 50),), 1e-5) == math.inf
