"""PLD beside the closed forms, with 60 digits: a third opinion that shares no line with it."""

from itertools import product

import mpmath
import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.privacy_loss import StepLoss
from fl_dp.records import Entry

mp = mpmath.mp.clone()
mp.dps = 60

# How far above the closed form PLD may be. Seen at these settings: 0.09 % for one step and for up to 100,000
# without sampling, 0.24 % at delta 1e-13, where what pays for rounding is not small beside it, and 1.2 % for
# a million steps.
TIGHT, TINY_DELTA, MILLION = 1e-3, 3e-3, 0.015
SLACK = 1e-12  # of an epsilon next to zero


def gaussian_delta(noise: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Of the Gaussian mechanism, sensitivity 1 (Balle, Wang 2018, arXiv 1805.06530, theorem 8)."""
    half, far = 1 / (2 * noise), epsilon * noise
    return mp.ncdf(half - far) - mp.exp(epsilon) * mp.ncdf(-half - far)


def removal_delta(q: mpmath.mpf, noise: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Of one Poisson-sampled step, P = (1 - q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2).

    P(X > x) - e^epsilon Q(X > x), where x is the outcome whose loss is epsilon >= 0 (Zhu, Dong, Wang 2022,
    arXiv 2106.08567, theorem 11: the pair is the worst of removing a record).
    """
    x = noise**2 * mp.log((mp.exp(epsilon) - (1 - q)) / q) + mp.mpf(1) / 2
    with_record = (1 - q) * mp.ncdf(-x / noise) + q * mp.ncdf((1 - x) / noise)
    return with_record - mp.exp(epsilon) * mp.ncdf(-x / noise)


def addition_delta(q: mpmath.mpf, noise: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Of Q against P, the worst of adding a record: Q(X < x) - e^epsilon P(X < x), loss of x is -epsilon."""
    ratio = (mp.exp(-epsilon) - (1 - q)) / q
    if ratio <= 0:
        return mp.mpf(0)  # no outcome has so large a loss: -log(1 - q) at most
    x = noise**2 * mp.log(ratio) + mp.mpf(1) / 2
    with_record = (1 - q) * mp.ncdf(x / noise) + q * mp.ncdf((x - 1) / noise)
    return mp.ncdf(x / noise) - mp.exp(epsilon) * with_record


def exact_epsilon(entry: Entry, delta: float) -> float:
    """Where the larger of both deltas falls to `delta`, by halving, to 1e-15; for one step, or rate 1."""
    q, noise = mp.mpf(entry.sample_rate), mp.mpf(entry.noise_multiplier)

    def delta_at(epsilon: mpmath.mpf) -> mpmath.mpf:
        if q == 1:
            return gaussian_delta(noise / mp.sqrt(entry.steps), epsilon)
        return max(removal_delta(q, noise, epsilon), addition_delta(q, noise, epsilon))

    assert q == 1 or entry.steps == 1
    if delta_at(mp.mpf(0)) <= delta:
        return 0.0
    low, high = mp.mpf(0), mp.mpf(1) / 2**40
    while delta_at(high) > delta:
        low, high = high, 2 * high
    while high - low > mp.mpf(10) ** -15 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return float(high)


def assert_just_above(exact: float, epsilon: float, delta: float, steps: int = 1) -> None:
    above = TINY_DELTA if delta < 1e-9 else MILLION if steps == 1_000_000 else TIGHT
    assert exact <= epsilon <= exact * (1 + above) + SLACK


ONE_STEP = [
    *product([1e-6, 0.1, 0.99, 1 - 1e-9, 1.0], [0.04, 0.3, 1.0, 10.0], [1e-13, 1e-5, 0.3]),
    *product([1e-3, 0.5], [1e3], [1e-13, 1e-9, 1e-5]),
    *product([1 - 1e-12, 1.0], [1e4], [1e-13, 1e-9, 1e-5]),
    (1.0, 0.0325, 1e-5),  # with expm1 of 750, which overflows, were it not for its guard
    (0.5, 0.034, 1e-5),
]


@pytest.mark.parametrize(("rate", "noise", "delta"), ONE_STEP)
def test_one_step(rate: float, noise: float, delta: float) -> None:
    entry = Entry(rate, noise, 1)
    assert_just_above(exact_epsilon(entry, delta), compute_epsilon([entry], delta, "pld"), delta)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(
    ("noise", "steps"), [(0.5, 2), (0.5, 40), (3.0, 3000), (100.0, 100_000), (1e3, 1_000_000)]
)
def test_many_steps_without_sampling(noise: float, steps: int, delta: float) -> None:
    """By rdp, too: never less than the exact value, and not far above it."""
    entry = Entry(1.0, noise, steps)
    exact = exact_epsilon(entry, delta)
    assert_just_above(exact, compute_epsilon([entry], delta, "pld"), delta, steps)
    assert exact <= compute_epsilon([entry], delta, "rdp") < 1.25 * exact + 0.01


@pytest.mark.parametrize("delta", [1e-13, 1e-9, 1e-5])
@pytest.mark.parametrize("noises", [(0.5, 0.7), (1.0, 30.0), (2.0, 2.1, 2.2, 2.3)])
def test_mechanisms_that_differ_without_sampling(noises: tuple[float, ...], delta: float) -> None:
    """Gaussian mechanisms compose to one: 1 / s^2 adds up."""
    together = sum(noise**-2.0 for noise in noises) ** -0.5
    epsilon = compute_epsilon([Entry(1.0, noise, 1) for noise in noises], delta, "pld")
    assert_just_above(exact_epsilon(Entry(1.0, together, 1), delta), epsilon, delta)


RATES = [1e-7, 1e-3, 0.1, 0.5, 0.51, 0.9, 0.999, 1 - 1e-12, 1 - 2**-53, 1.0]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("noise", [0.0317, 0.05, 0.3, 0.99, 1.0, 10.0, 1e4])
def test_deltas_err_by_no_more_than_they_say(rate: float, noise: float) -> None:
    """PLD pays for `evaluation_error`. With exponentials of large numbers a delta came out 2e-5 too low."""
    step = StepLoss(rate, noise)
    q, s = mp.mpf(rate), mp.mpf(noise)
    for deviations in (-8.0, -3.1, -1.2, -0.53, 0.07, 0.53, 1.7, 4.0):  # from either bell; most within 2
        size = abs(float(step.loss(deviations * noise + (deviations > 0.0))))
        at = mp.mpf(size)
        removal, addition = removal_delta(q, s, at), addition_delta(q, s, at)
        for compute, exact, other in (
            (step.removal_delta, removal, addition),
            (step.addition_delta, addition, removal),
        ):
            assert abs(exact - compute([size])[0]) <= step.evaluation_error()
            below = 1 - mp.exp(-at) + mp.exp(-at) * other
            assert abs(below - compute([-size])[0]) <= step.evaluation_error() + 2.0**-52
