"""Epsilon: published values, the exact Gaussian mechanism as a floor, and the order of everything."""

import logging
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_dp.accounting.accountants import compute_epsilon
from fl_dp.accounting.rdp import compute_rdp_epsilon
from fl_dp.errors import AccountingError
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
    """Not below (but for their digits), and at most 1 % above: RDP has fewer orders here than elsewhere."""
    assert published * (1 - 5e-4) <= compute_epsilon([entry], delta, accountant) <= published * 1.01


@pytest.mark.parametrize(
    ("noise", "epochs", "published"), [(1.12, 60, 2.92), (0.6, 30, 9.74), (1.2, 10, 1.20)]
)
def test_tighter_than_the_table_of_the_tensorflow_privacy_tutorial(noise, epochs, published):
    """60,000 examples, batch 256, delta 1e-5; the table has the older conversion from RDP to epsilon."""
    entry = Entry(256 / 60000, noise, epochs * 60000 // 256)
    pld, rdp = (compute_epsilon([entry], 1e-5, accountant) for accountant in ("pld", "rdp"))
    assert 0.6 * published < pld < rdp < published


def _gaussian_epsilon(noise: float, steps: int, delta: float) -> float:
    """Exact epsilon of `steps` Gaussian mechanisms (Balle, Wang 2018, arXiv 1805.06530, theorem 8)."""
    from dp_accounting import get_epsilon_gaussian  # the closed form in logarithms; no accountant

    return get_epsilon_gaussian(noise / math.sqrt(steps), delta)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 100), (20.0, 1000), (50.0, 100_000)])
def test_never_below_the_exact_gaussian_mechanism(noise, steps, accountant):
    exact = _gaussian_epsilon(noise, steps, 1e-5)
    assert exact <= compute_epsilon([Entry(1.0, noise, steps)], 1e-5, accountant) < 1.2 * exact


def test_pld_is_tight_and_pays_for_its_rounding_errors():
    """At delta 1e-10 over 100,000 steps dp_accounting alone comes out 0.05 % below the exact value."""
    epsilon = compute_epsilon([Entry(1.0, 5.0, 100)], 1e-5)
    assert epsilon == pytest.approx(_gaussian_epsilon(5.0, 100, 1e-5), rel=5e-4)
    epsilon = compute_epsilon([Entry(1.0, 50.0, 100_000)], 1e-10)
    assert epsilon >= _gaussian_epsilon(50.0, 100_000, 1e-10)


@pytest.mark.parametrize("entry", GRID, ids=str)
def test_pld_is_at_most_rdp(entry):
    assert compute_epsilon([entry], 1e-5, "pld") <= compute_epsilon([entry], 1e-5, "rdp") * (1 + 1e-3)


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


def test_a_step_too_weak_to_resolve_costs_as_much_as_a_stronger_one():
    weak, stronger = Entry(1e-12, 1.0, 1000), Entry(1e-7, 1.0, 1000)
    for accountant in ("pld", "rdp"):
        assert compute_epsilon([weak], 1e-9, accountant) == compute_epsilon([stronger], 1e-9, accountant)


def test_the_orders_of_rdp_converge_without_a_warning(caplog):
    """Rates near one half with much noise converge slowest."""
    with caplog.at_level(logging.WARNING):
        for sample_rate in (0.01, 0.49, 0.5, 0.51, 0.9):
            for noise in (0.3, 1.0, 20.0, 1000.0):
                compute_rdp_epsilon((Entry(sample_rate, noise, 10),), 1e-5)
    assert not caplog.records


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(AccountingError, match=r"delta=.* in \(0, 1\)"):
        compute_epsilon([Entry(0.1, 1.0, 1)], delta)


def test_a_delta_too_small_for_pld_is_refused():
    with pytest.raises(AccountingError, match="take the accountant 'rdp'"):
        compute_epsilon([Entry(0.1, 10.0, 100_000)], 1e-12)


def test_an_unknown_accountant_is_refused():
    with pytest.raises(AccountingError, match="'moments': expected pld or rdp"):
        compute_epsilon([Entry(0.1, 1.0, 1)], 1e-5, "moments")
