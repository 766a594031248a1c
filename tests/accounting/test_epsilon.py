"""Epsilon: published values, and what entries mean together."""

import math

import numpy as np
import pytest

from fl_dp.accounting.epsilon import _compute, compute_epsilon, in_digits
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.records import Entry


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
    ("entry", "published"),
    [
        (Entry(0.001, 0.8, 100), 0.270403364058),
        (Entry(0.05, 0.8, 100), 6.741051939414),
        (Entry(0.2, 3.0, 100), 3.381220510222),
        (Entry(0.05, 2.0, 1000), 4.172799866689),
        (Entry(0.001, 1.5, 20_000), 0.437005108655),
        (Entry(0.05, 3.0, 20_000), 13.961114699237),
        (Entry(0.001, 2.0, 100_000), 0.706719901081),
    ],
)
def test_between_the_error_bounds_of_microsofts_prv_accountant(entry, published):
    """pytorch/opacus, prv_accountant.py of its tests: upper estimates at delta 1e-6, 0.01 above the best."""
    assert published - 0.0205 < compute_epsilon([entry], 1e-6, "pld") < published
    assert compute_epsilon([entry], 1e-6, "rdp") > published - 0.0205


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


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_a_step_too_weak_to_resolve_costs_as_much_as_a_stronger_one(accountant):
    def epsilon(rate, noise):
        return compute_epsilon([Entry(rate, noise, 1000)], 1e-9, accountant)

    assert epsilon(1e-12, 1.0) == epsilon(1e-7, 1.0)
    assert epsilon(1.0, 1e6) == epsilon(1.0, 1e4) > 0


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        *((delta, r"in \(0, 1\)") for delta in (0.0, 1.0, -1e-5, math.nan)),
        (1e-12, "use the accountant 'rdp'"),
    ],
)
def test_a_delta_that_is_no_probability_or_too_small_for_pld_is_refused(delta, words):
    with pytest.raises(AccountingError, match=words):
        compute_epsilon([Entry(0.1, 10.0, 100_000)], delta)


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


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [
        (0.0, "0"),
        (1.5, "1.5"),
        (2.99170004, "2.9918"),
        (2.9917, "2.9917"),
        (5e-324, "4.9407e-324"),
        (99999.5, "1e+05"),
        (math.inf, "inf"),
        (np.float64(2.99170004), "2.9918"),  # of an accountant of another package
    ],
)
def test_a_printed_epsilon_is_never_below_the_computed_one(epsilon, printed):
    assert in_digits(epsilon, 5) == printed
    assert float(printed) >= epsilon
