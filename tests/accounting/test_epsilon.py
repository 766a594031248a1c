"""Epsilon: published values, the exact Gaussian mechanism as a floor, and the order of everything."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_dp.accounting.epsilon import _compute, compute_epsilon
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry

GRID = [
    Entry(sample_rate, noise, steps)
    for sample_rate in (0.001, 0.01, 0.1, 0.5)
    for noise in (0.6, 1.0, 3.0)
    for steps in (1, 100, 2000)
]


@pytest.mark.parametrize(
    ("entry", "delta", "accountant", "published"),
    [
        # tensorflow/privacy, compute_dp_sgd_privacy_lib_test.py: 10,000 examples, batch 64, 5 epochs, noise 2
        # with microbatching, which doubles the sensitivity
        (Entry(64 / 10000, 1.0, 782), 1e-6, "rdp", 1.616),
        (Entry(64 / 10000, 1.0, 782), 1e-6, "pld", 1.199),
        # the same file: 1.2 epochs at sampling probability 0.01, and without sampling
        (Entry(0.01, 0.7, 120), 1e-5, "rdp", 3.2391922),
        (Entry(0.01, 0.7, 120), 1e-5, "pld", 2.4612381),
        (Entry(1.0, 0.7, 2), 1e-5, "rdp", 10.8602036),
        (Entry(1.0, 0.7, 2), 1e-5, "pld", 10.1224946),
        # pytorch/opacus, accountants_test.py: 90 epochs at sample rate 0.04
        (Entry(0.04, 1.5, 2250), 1e-5, "rdp", 7.32911117143),
    ],
)
def test_published_values(entry, delta, accountant, published):
    """As published, but for digits, PLD's grids and RDP's orders: other ones give other upper bounds."""
    assert published * (1 - 1e-3) <= compute_epsilon([entry], delta, accountant) <= published * 1.01


@pytest.mark.parametrize(
    ("noise", "epochs", "published"), [(1.12, 60, 2.92), (0.6, 30, 9.74), (1.2, 10, 1.20)]
)
def test_tighter_than_the_table_of_the_tensorflow_privacy_tutorial(noise, epochs, published):
    """60,000 examples, batch 256, delta 1e-5; the table has the older conversion from RDP to epsilon."""
    entry = Entry(256 / 60000, noise, epochs * 60000 // 256)
    pld, rdp = (compute_epsilon([entry], 1e-5, accountant) for accountant in ("pld", "rdp"))
    assert 0.6 * published < pld < rdp < published


@pytest.mark.parametrize(
    ("entry", "published"),
    [
        # Abadi et al. 2016 (arXiv 1607.00133), section 3.2: lots of 1 %, noise 4, 100 epochs
        (Entry(0.01, 4.0, 10_000), 1.26),
        # Bu, Dong, Long, Su 2020 ("Deep Learning with Gaussian Differential Privacy"), figure 4
        (Entry(256 / 60000, 1.3, 20 * 60000 // 256), 1.34),
        (Entry(256 / 60000, 0.7, 70 * 60000 // 256), 8.68),
    ],
)
def test_tighter_than_the_moments_accountant(entry, published):
    pld, rdp = (compute_epsilon([entry], 1e-5, accountant) for accountant in ("pld", "rdp"))
    assert 0.7 * published < pld < rdp < published


@pytest.mark.parametrize(
    ("noise", "sample_rate", "steps", "published"),
    [
        (0.8, 0.001, 100, 0.270403364058),
        (3.0, 0.001, 100, 0.021520093439),
        (0.8, 0.05, 100, 6.741051939414),
        (3.0, 0.2, 100, 3.381220510222),
        (2.0, 0.05, 1000, 4.172799866689),
        (1.5, 0.001, 20_000, 0.437005108655),
        (3.0, 0.05, 20_000, 13.961114699237),
        (2.0, 0.001, 100_000, 0.706719901081),
    ],
)
def test_between_the_error_bounds_of_microsofts_prv_accountant(noise, sample_rate, steps, published):
    """pytorch/opacus, prv_accountant.py of its tests: upper estimates at delta 1e-6, 0.01 above the best."""
    entry = Entry(sample_rate, noise, steps)
    assert published - 0.0205 < compute_epsilon([entry], 1e-6, "pld") < published
    assert compute_epsilon([entry], 1e-6, "rdp") > published - 0.0205


def test_dp_accountings_own_figure_of_a_short_history():
    """pld_privacy_accountant_test.py: delta 0.15594 at epsilon 1."""
    assert compute_epsilon([Entry(0.2, 0.5, 3)], 0.15594) == pytest.approx(1.0, abs=1e-3)


def _gaussian_epsilon(noise: float, steps: int, delta: float) -> float:
    """Exact epsilon of `steps` Gaussian mechanisms (Balle, Wang 2018, arXiv 1805.06530, theorem 8)."""
    from dp_accounting import get_epsilon_gaussian  # the closed form in logarithms; no accountant

    return get_epsilon_gaussian(noise / math.sqrt(steps), delta)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 100), (20.0, 1000), (50.0, 100_000)])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_never_below_the_exact_gaussian_mechanism(noise, steps, delta, accountant):
    exact = _gaussian_epsilon(noise, steps, delta)
    assert exact <= compute_epsilon([Entry(1.0, noise, steps)], delta, accountant) < 1.25 * exact


def test_pld_is_tight_and_pays_for_its_rounding_errors():
    """At delta 1e-10 over 100,000 steps dp_accounting alone comes out 0.05 % below the exact value."""
    epsilon = compute_epsilon([Entry(1.0, 5.0, 100)], 1e-5)
    assert epsilon == pytest.approx(_gaussian_epsilon(5.0, 100, 1e-5), rel=5e-4)
    epsilon = compute_epsilon([Entry(1.0, 50.0, 100_000)], 1e-10)
    assert epsilon >= _gaussian_epsilon(50.0, 100_000, 1e-10)


def _lower_bound(entry: Entry, delta: float) -> float:
    """Below the true epsilon: dp_accounting's privacy buckets, every loss rounded down."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    interval = 2e-4 if entry.sample_rate < 0.05 else 2e-3
    step = from_gaussian_mechanism(
        entry.noise_multiplier,
        sampling_prob=entry.sample_rate,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=interval,
    )
    return float(step.self_compose(entry.steps).get_epsilon_for_delta(delta))


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("entry", [e for e in GRID if e.steps <= 100], ids=str)
def test_never_below_a_proven_lower_bound(entry, accountant):
    lower = _lower_bound(entry, 1e-5)
    assert lower <= compute_epsilon([entry], 1e-5, accountant)
    if accountant == "pld":
        assert (
            compute_epsilon([entry], 1e-5) < lower + 0.02 + 0.35 * lower
        )  # the bound is no number far below


@pytest.mark.parametrize("entry", GRID, ids=str)
def test_pld_is_at_most_rdp(entry):
    assert compute_epsilon([entry], 1e-5, "pld") <= compute_epsilon([entry], 1e-5, "rdp")


@settings(max_examples=15, deadline=None)
@given(
    sample_rate=st.floats(0.005, 0.4),
    noise=st.floats(0.7, 5.0),
    steps=st.integers(1, 300),
    accountant=st.sampled_from(["pld", "rdp"]),
)
def test_epsilon_grows_with_steps_and_rate_and_falls_with_noise(sample_rate, noise, steps, accountant):
    def epsilon(rate_factor: float = 1.0, noise_factor: float = 1.0, more: int = 0) -> float:
        entry = Entry(sample_rate * rate_factor, noise * noise_factor, steps + more)
        return compute_epsilon([entry], 1e-5, accountant)

    slack = 1 + 1e-3  # a change of the loss grid may move an upper bound by less than this
    assert epsilon() <= epsilon(more=20) * slack
    assert epsilon() <= epsilon(rate_factor=1.2) * slack
    assert epsilon(noise_factor=1.2) <= epsilon() * slack


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_grouping_and_order_change_nothing(accountant):
    one, other = Entry(0.1, 1.0, 10), Entry(0.2, 2.0, 5)
    parts = [Entry(0.1, 1.0, 4), other, Entry(0.1, 1.0, 6)]
    assert compute_epsilon(parts, 1e-5, accountant) == compute_epsilon([one, other], 1e-5, accountant)
    assert compute_epsilon([one], 1e-5, accountant) < compute_epsilon([one, other], 1e-5, accountant)


def test_nothing_costs_nothing_and_no_privacy_is_infinite():
    assert compute_epsilon([], 1e-5) == 0.0
    assert compute_epsilon([Entry(0.5, 1e-3, 1)], 1e-5) == math.inf
    assert compute_epsilon([Entry(0.5, 100.0, 10**9)], 1e-5) == math.inf
    million, one_more = Entry(1e-3, 50.0, 1_000_000), Entry(1e-3, 50.0, 1_000_001)
    assert compute_epsilon([million], 1e-5, "rdp") < compute_epsilon([one_more], 1e-5, "rdp") == math.inf


def test_a_step_too_weak_to_resolve_costs_as_much_as_a_stronger_one():
    weak, stronger = Entry(1e-12, 1.0, 1000), Entry(1e-7, 1.0, 1000)
    for accountant in ("pld", "rdp"):
        assert compute_epsilon([weak], 1e-9, accountant) == compute_epsilon([stronger], 1e-9, accountant)
    weak, stronger = Entry(1.0, 1e6, 1000), Entry(1.0, 1e4, 1000)
    for accountant in ("pld", "rdp"):
        assert compute_epsilon([weak], 1e-9, accountant) == compute_epsilon([stronger], 1e-9, accountant) > 0


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(AccountingError, match=r"delta=.* in \(0, 1\)"):
        compute_epsilon([Entry(0.1, 1.0, 1)], delta)


def test_a_delta_too_small_for_pld_is_refused():
    with pytest.raises(AccountingError, match="take the accountant 'rdp'"):
        compute_epsilon([Entry(0.1, 10.0, 100_000)], 1e-12)


def test_equal_histories_are_computed_once():
    """A thousand clients: their entries arrive in other orders and groups."""
    _compute.cache_clear()
    histories = [
        [Entry(0.01, 1.0, steps), Entry(0.02, 2.0, 9), Entry(0.01, 1.0, 99 - steps)] for steps in range(1, 51)
    ]
    assert len({compute_epsilon(history, 1e-5) for history in histories}) == 1
    assert _compute.cache_info().misses == 1


def test_an_unknown_accountant_is_refused():
    with pytest.raises(ConfigError, match=r"accountant = 'no-such-accountant': expected .*\bpld\b.*\brdp\b"):
        compute_epsilon([Entry(0.1, 1.0, 1)], 1e-5, "no-such-accountant")
    with pytest.raises(ConfigError, match="'pld:fine': an accountant takes no argument"):
        compute_epsilon([], 1e-5, "pld:fine")
