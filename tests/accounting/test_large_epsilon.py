"""Large epsilons: an upper bound as far as it can be computed, then a refusal, never another target."""

import math

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.epsilon import MAX_EPSILON, compute_epsilon
from fl_dp.errors import AccountingError
from fl_dp.records import Entry

WEAK = [
    (0.01, 0.25, 300),
    (0.01, 0.05, 2),
    (0.05, 0.2, 200),
    (1.0, 0.1, 7),
    (1e-3, 0.1, 1000),
    (0.3, 0.5, 150),
]


@pytest.mark.parametrize(("rate", "noise", "steps"), WEAK)
def test_hardly_any_noise_costs_a_number_between_the_bounds_of_dp_accounting(rate, noise, steps):
    below, above = (
        from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            value_discretization_interval=0.01,
            use_connect_dots=pessimistic,
            pessimistic_estimate=pessimistic,
        )
        .self_compose(steps)
        .get_epsilon_for_delta(1e-5)
        for pessimistic in (False, True)
    )
    pld, rdp = (compute_epsilon([Entry(rate, noise, steps)], 1e-5, one) for one in ("pld", "rdp"))
    assert 50.0 < below <= pld <= above * 1.005
    assert pld <= rdp


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("target", [30.0, 60.0, 100.0, 400.0, MAX_EPSILON])
def test_a_large_target_gets_the_noise_that_costs_it(target, accountant):
    noise = calibrate_noise(0.1, 100, target, 1e-5, accountant=accountant)
    cost = compute_epsilon([Entry(0.1, noise, 100)], 1e-5, accountant)
    assert target * 0.99 < cost <= target


def test_the_order_goes_on_into_infinity():
    costs = [compute_epsilon([Entry(0.05, 0.6 * 0.9**i, 200)], 1e-5) for i in range(30)]
    assert costs == sorted(costs)
    assert sum(map(math.isfinite, costs)) > 10
    assert costs[-1] == math.inf


@pytest.mark.parametrize(
    ("rate", "steps", "target", "largest"),
    [
        (0.05, 200, 650.01, "largest epsilon is 650"),
        (0.001, 1, 649.0, "largest epsilon is 578.7"),
        (1e-9, 1, 3.0, "largest epsilon is 0,"),  # hardly anybody takes part: any noise is enough
    ],
)
def test_a_target_beyond_what_can_be_computed_is_refused_with_the_largest(rate, steps, target, largest):
    with pytest.raises(AccountingError, match=largest):
        calibrate_noise(rate, steps, target, 1e-5)
