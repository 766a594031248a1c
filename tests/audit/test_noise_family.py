"""The search among members of a family: the least noise that is refuted, wherever it lies."""

import math

import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.audit.noise_family import NoiseFamily
from fl_dp.records import Entry

FAMILY = NoiseFamily(Entry(0.5, 2.0, 4), 1e-5)


def _refuting(noise_multiplier):
    """A test that refutes this member, and all with more noise."""
    limit = FAMILY.trade_off(noise_multiplier).most_right()
    return lambda trade_off: trade_off.most_right() <= limit


@pytest.mark.parametrize("noise_multiplier", [0.4, 1.9, 2.0, 2.1, 17.0])
def test_the_least_member_that_is_refuted_is_found_from_above(noise_multiplier):
    found = FAMILY.least_refuted(_refuting(noise_multiplier))
    assert noise_multiplier * (1 - 1e-9) <= found <= 1.002 * noise_multiplier


def test_nothing_refuted_is_inf_and_everything_ends_where_epsilon_does():
    assert FAMILY.least_refuted(lambda trade_off: False) == math.inf
    assert FAMILY.epsilon(FAMILY.least_refuted(lambda trade_off: True)) < math.inf


def test_its_epsilon_is_the_accountant_s():
    assert FAMILY.epsilon(2.0) == compute_epsilon([FAMILY.entry], 1e-5)
