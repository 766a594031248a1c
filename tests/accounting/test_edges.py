"""At the edges every accountant gives an upper bound, or refuses in words; calibration does the same."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_dp import choices
from fl_dp.accounting.accountant import find_accountant
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise, steps_that_fit
from fl_dp.accounting.epsilon import MAX_STEPS, compute_epsilon
from fl_dp.accounting.training_plan import steps_of_epochs
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry

ACCOUNTANTS = choices.ACCOUNTANTS.built_in()
BOUNDS = [name for name in ACCOUNTANTS if find_accountant(name).upper_bound]
JUST_BELOW_ONE = math.nextafter(1.0, 0.0)
Floats = tuple[float, float]
Case = tuple[Entry, float]

rates = st.sampled_from([1e-300, 1e-12, 1e-6, 0.5, 1 - 1e-12, JUST_BELOW_ONE, 1.0]) | st.floats(1e-9, 1.0)
noises = st.sampled_from([5e-324, 1e-300, 1e-3, 0.032, 0.06, 1.0, 1e6, 1e300]) | st.floats(-2.0, 5.0).map(
    lambda power: 10.0**power
)
steps = st.sampled_from([1, 2, MAX_STEPS, MAX_STEPS + 1, 10**400]) | st.integers(1, 2000)
deltas = st.sampled_from([5e-324, 1e-300, 1e-12, 1 / 60_000, 0.5, 1 - 1e-9, JUST_BELOW_ONE])

# What a larger rate, more steps, less noise or a smaller delta may lower an upper bound by: another grid's
# rounding, or another quadrature's ("rdp", over a million steps).
SLACK = dict.fromkeys(BOUNDS, 1e-3) | {"rdp": 1e-6}
# How many are tried: each takes 20 ms by PLD, by others more or less.
EXAMPLES = dict.fromkeys(ACCOUNTANTS, 25) | {"rdp": 50}


def epsilon_or_refusal(entry: Entry, delta: float, accountant: str) -> float | None:
    """None where it refuses; a warning is an error in this suite, as is anything but words of our own."""
    try:
        epsilon = compute_epsilon([entry], delta, accountant)
    except AccountingError as error:
        refusal = str(error)
    else:
        assert epsilon >= 0.0  # also: a number
        return epsilon
    assert "use the accountant" in refusal
    return None


@pytest.mark.parametrize("accountant", BOUNDS)
def test_there_is_a_number_or_words_and_the_order_is_kept(accountant: str) -> None:
    @settings(max_examples=EXAMPLES[accountant], deadline=None)
    @given(*[st.tuples(one, one) for one in (rates, noises, steps, deltas)])
    def check(rate: Floats, noise: Floats, count: tuple[int, int], delta: Floats) -> None:
        less = epsilon_or_refusal(Entry(min(rate), max(noise), min(count)), max(delta), accountant)
        more = epsilon_or_refusal(Entry(max(rate), min(noise), max(count)), min(delta), accountant)
        if less is not None and more is not None:
            assert less * (1 - SLACK[accountant]) <= more

    check()


@pytest.mark.parametrize("accountant", BOUNDS)
@pytest.mark.parametrize(
    ("less", "more"),
    [
        ((Entry(1 - 1e-12, 1e3, 10_000), 1e-5), (Entry(1.0, 1e3, 10_000), 1e-5)),
        ((Entry(0.5, 0.07, 3), 1e-5), (Entry(0.5, 0.06999999, 3), 1e-5)),
        ((Entry(0.01, 5.0, 999_999), 1e-5), (Entry(0.01, 5.0, 1_000_000), 1e-5)),
        ((Entry(0.01, 1.0, 100), 1.0000001e-9), (Entry(0.01, 1.0, 100), 1e-9)),
        # the deltas of pld's grid once rose here by rounding, which was refused
        ((Entry(JUST_BELOW_ONE, 0.06, 2), JUST_BELOW_ONE), (Entry(JUST_BELOW_ONE, 0.06, 2), 0.5)),
    ],
)
def test_the_order_is_kept_from_edge_to_edge(less: Case, more: Case, accountant: str) -> None:
    """One number moved to its neighbour, where the grid changes least and rounding shows most."""
    one, other = (compute_epsilon([entry], delta, accountant) for entry, delta in (less, more))
    assert 0.0 <= one * (1 - SLACK[accountant]) <= other < math.inf
    assert other > 0.0


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_hardly_any_noise_or_more_steps_than_a_float_can_count_are_no_privacy(accountant: str) -> None:
    for noise in (5e-324, 1e-300, 1e-160, 1e-3):
        assert compute_epsilon([Entry(1e-12, noise, 1)], 1e-5, accountant) == math.inf
    assert compute_epsilon([Entry(1e-12, 1e300, 10**400)], 0.5, accountant) == math.inf


@pytest.mark.parametrize("accountant", BOUNDS)
@pytest.mark.parametrize("records", [100, 60_000, 10**9])
def test_a_delta_near_one_over_n_of_one_record_in_n(records: int, accountant: str) -> None:
    """With rate 1 / n a step without noise is (0, 1 / n)-private: epsilon falls to 0 at delta 1 / n."""
    below, above = (
        compute_epsilon([Entry(1 / records, 0.1, 1)], share / records, accountant)
        for share in (1 - 1e-9, 1.0000001)
    )
    assert 0.0 <= above <= below * (1 + SLACK[accountant])


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_a_budget_of_nothing_is_enough_at_a_large_delta(accountant: str) -> None:
    noise = calibrate_noise(0.01, 1, 0.0, 0.1, accountant=accountant)
    assert compute_epsilon([Entry(0.01, noise, 1)], 0.1, accountant) == 0.0
    assert steps_that_fit(Entry(0.01, noise, 1), 0.0, 0.1, accountant=accountant) == 1


@pytest.mark.parametrize("accountant", BOUNDS)
def test_no_noise_is_enough_for_a_budget_of_nothing_at_a_small_delta(accountant: str) -> None:
    with pytest.raises(AccountingError, match="No noise multiplier up to 8192"):
        calibrate_noise(0.5, 1000, 0.0, 1e-9, accountant=accountant)
    assert steps_that_fit(Entry(0.5, 1.0, 10), 0.0, 1e-9, accountant=accountant) == 0


@pytest.mark.parametrize("accountant", BOUNDS)
@pytest.mark.parametrize(
    ("rate", "count", "epsilon", "delta"),
    [
        (1.0, MAX_STEPS + 1, 3.0, 1e-5),
        (1e-12, 10**400, 1e9, 0.5),
        (1.0, MAX_STEPS, 5e-324, 1e-300),
        (0.5, 10, -1.0, 1e-5),
        (0.5, 10, math.nan, 1e-5),
        (0.5, 10, 3.0, math.nan),
        (0.5, 10, 3.0, 1.0),
    ],
)
def test_calibration_refuses_in_words(
    rate: float, count: int, epsilon: float, delta: float, accountant: str
) -> None:
    with pytest.raises(AccountingError, match=r"No noise multiplier up|Expected|use the accountant|is 650,"):
        calibrate_noise(rate, count, epsilon, delta, accountant=accountant)


def test_a_budget_without_end_asks_for_the_least_noise_and_one_that_is_no_number_is_refused() -> None:
    assert calibrate_noise(1.0, 1, math.inf, 1e-5) == 1 / 32
    assert steps_that_fit(Entry(1.0, 1e-300, 10**400), math.inf, 1e-5) == 10**400
    with pytest.raises(AccountingError, match="epsilon=nan"):
        steps_that_fit(Entry(0.1, 1.0, 9), math.nan, 1e-5)


@pytest.mark.parametrize("accountant", BOUNDS)
@pytest.mark.parametrize("noise", [1e-300, 1e-3, 1e6, 1e300])
@pytest.mark.parametrize("planned", [1, 10**19, 10**400])
def test_steps_that_fit_at_the_edges(planned: int, noise: float, accountant: str) -> None:
    fitting = steps_that_fit(Entry(1e-12, noise, planned), 1.0, 1e-5, accountant=accountant)
    assert fitting == (0 if noise < 1.0 else min(planned, MAX_STEPS))
    for budget in (Budget(5e-324, 1e-300, "rdp"), Budget(1e308, 1 - 1e-9, accountant)):
        assert 0 <= budget.steps_that_fit(Entry(1e-12, noise, planned), ()) <= planned


@pytest.mark.parametrize(
    ("records", "epochs"),
    [(100, 1e308), (10**400, 1.0), (10**4000, 1e-300), (100, 0.0), (100, math.nan), (100, math.inf)],
)
def test_more_steps_of_epochs_than_a_float_can_count(records: int, epochs: float) -> None:
    with pytest.raises(ConfigError, match=r"records|local-epochs"):
        steps_of_epochs(records, 1, epochs)
