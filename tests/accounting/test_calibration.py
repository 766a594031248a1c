"""Calibration lands on the safe side of the budget, close to it, or says that it cannot."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fl_dp.accounting.calibration import calibrate_noise, least_within, steps_that_fit
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry

SPENT = (Entry(0.05, 2.0, 40),)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("spent", [(), SPENT])
@pytest.mark.parametrize(
    ("sample_rate", "steps", "epsilon"), [(0.05, 60, 3.0), (0.01, 10, 8.0), (1.0, 10, 1.0)]
)
def test_the_noise_is_enough_and_a_thousandth_less_is_not(sample_rate, steps, epsilon, spent, accountant):
    noise = calibrate_noise(sample_rate, steps, epsilon, 1e-5, spent=spent, accountant=accountant)

    def cost(noise_multiplier: float) -> float:
        return compute_epsilon([*spent, Entry(sample_rate, noise_multiplier, steps)], 1e-5, accountant)

    assert cost(noise) <= epsilon < cost(noise * (1 - 2e-3))
    assert len(f"{noise:g}".replace(".", "").lstrip("0")) <= 5


@pytest.mark.parametrize(
    ("calibrate", "error", "words"),
    [
        (lambda: calibrate_noise(0.05, 10, 0.1, 1e-5, spent=SPENT), AccountingError, r"Plan fewer steps"),
        (lambda: calibrate_noise(1.0, 9, 1e-4, 1e-9, accountant="rdp"), AccountingError, "up to 8192"),
        (lambda: calibrate_noise(0.02, 20, 2.0, 1e-5, rounds=0), ConfigError, "rounds=0"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(calibrate, error, words):
    with pytest.raises(error, match=words):
        calibrate()


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("spent", [(), SPENT])
def test_the_steps_fit_and_one_more_does_not(spent, accountant):
    steps = steps_that_fit(Entry(0.1, 1.0, 10**9), 3.0, 1e-5, spent=spent, accountant=accountant)

    def cost(count: int) -> float:
        return compute_epsilon([*spent, Entry(0.1, 1.0, count)], 1e-5, accountant)

    assert 0 < steps < 500
    assert cost(steps) <= 3.0 < cost(steps + 1)
    assert steps_that_fit(Entry(0.1, 1.0, steps), 3.0, 1e-5, spent=spent, accountant=accountant) == steps
    for planned in (1, 50):
        assert steps_that_fit(Entry(0.1, 1.0, planned), 0.1, 1e-5, spent=SPENT, accountant=accountant) == 0


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_all_rounds_of_a_plan_are_calibrated_for_together(accountant):
    noise = calibrate_noise(0.02, 20, 2.0, 1e-5, rounds=12, accountant=accountant)
    assert noise == calibrate_noise(0.02, 240, 2.0, 1e-5, accountant=accountant)


@settings(max_examples=15, deadline=None)
@given(
    sample_rate=st.floats(1e-4, 0.3),
    steps=st.integers(10, 3000),
    epsilon=st.floats(0.2, 12.0),
    data=st.data(),
)
def test_noise_is_monotone(sample_rate, steps, epsilon, data):
    """RDP, whose numbers are one formula's, keeps the order exactly."""

    def noise(rate_factor: float = 1.0, more: int = 0, epsilon_factor: float = 1.0) -> float:
        return calibrate_noise(
            sample_rate * rate_factor, steps + more, epsilon * epsilon_factor, 1e-6, accountant="rdp"
        )

    assert noise() <= noise(rate_factor=data.draw(st.floats(1.0, 3.0)))
    assert noise() <= noise(more=data.draw(st.integers(0, 1000)))
    assert noise() >= noise(epsilon_factor=data.draw(st.floats(1.0, 3.0)))


@given(
    costs=st.lists(st.one_of(st.floats(0, 10), st.just(math.inf)), min_size=2, max_size=40),
    budget=st.floats(0.1, 9.9),
)
@example(costs=[5e-324, math.inf], budget=2.0)
def test_it_finds_the_least_number_of_any_falling_cost(costs, budget):
    falling = [math.inf, *sorted(costs, reverse=True), 0.0]
    expected = next(i for i, cost in enumerate(falling) if cost <= budget)
    high = len(falling) - 1
    assert least_within(falling.__getitem__, budget, 0, high, position=float) == expected
    assert least_within(falling.__getitem__, budget, 0, high, position=lambda i: -math.exp(-i)) == expected


def test_a_power_law_takes_few_computations():
    asked = []

    def cost(number: int) -> float:
        asked.append(number)
        return 1e6 * number**-1.7

    found = least_within(cost, 3.0, 1, 100_000, position=math.log)
    assert cost(found) <= 3.0 < cost(found - 1)
    assert len(set(asked)) <= 8
