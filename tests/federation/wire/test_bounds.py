"""What an honest client can show, and that no accountant raises within it."""

import math
import warnings
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.client import is_name
from fl_dp.errors import AccountingError, ConfigError
from fl_dp.federation.wire import bounds, messages
from fl_dp.records import ClientProfile, Entry
from fl_dp.schema import read

PROFILE = ClientProfile("hospital-3", 640, 3.0, 1e-5, (), "pld")
SIZES = st.integers(0, 9).map(lambda power: 10**power)
RATES = st.one_of(st.floats(-15, 0).map(lambda power: min(1.0, 10**power)), st.sampled_from([1.0, 1e-15]))
NOISES = st.one_of(st.floats(-3, 6).map(lambda power: 10**power), st.sampled_from([1e-3, 1e6, 0.0, 1.0]))


def _entries(*columns):
    names = (field.name for field in fields(bounds.Spent))
    return bounds.entries_of(read(bounds.Spent, dict(zip(names, columns, strict=True))))


NAMES = ("..", ".", ".hidden", "a/b", "../a", "a\\b", "", " a", "a ", "a\nb", "a\x1b[2J", "\u202ea", "x" * 65)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_a_path_or_moves_a_console_is_refused(name):
    assert not is_name(name)
    with pytest.raises(ConfigError, match="impossible client"):
        bounds.check_profile(replace(PROFILE, client=name))


@pytest.mark.parametrize("name", ["0", "hospital 3", "Charité", "a.b", "north-west_1"])
def test_an_ordinary_name_is_taken(name):
    bounds.check_profile(replace(PROFILE, client=name))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("public_size", (0, 10**15 + 1, 2**62)),
        ("epsilon", (1e-300, 1e300, 1e7, math.nan, math.inf)),
        ("delta", (0.0, 1e-300, 0.2, 1.0)),
        ("accountant", ("no-such-accountant", "prv")),
        ("min_noise_multiplier", (-1.0, 1e7, math.nan)),
        ("epsilon_alone", (-1.0, 1e-300, math.nan)),
        ("retired", (-1, 10**7)),
        ("arithmetic", ("certain",)),
    ],
)
def test_numbers_that_no_client_has_are_refused(field, values):
    for value in values:
        content = messages.profile_to_content(replace(PROFILE, **{field: value}))
        with pytest.raises(ConfigError, match=f"impossible {field}"):
            messages.profile_from_content(content)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (0, (1e-300, 0.0, 1.5, 1, True, "0.1")),
        (1, (1e-300, 1e-4, 1e7, math.inf, math.nan, None)),  # the square of the first is no float
        (2, (0, -5, 1.0, 10**9 + 1, 2**62, True)),
        (3, (0, 101, True, 2.0)),
    ],
)
def test_spending_that_no_ledger_shows_is_refused(column, values):
    for value in values:
        entry = [0.1, 1.0, 1, 1]
        entry[column] = value
        with pytest.raises(ConfigError, match="Spent with an impossible"):
            _entries(*([one] for one in entry))


def test_unprotected_steps_have_no_shares():
    with pytest.raises(ConfigError, match="of steps without noise"):
        _entries([0.1], [0.0], [1], [2])


def test_shares_arrive():
    assert _entries([0.1], [1.0], [5], [7]) == (Entry(0.1, 1.0, 5, 7),)
    with pytest.raises(ConfigError, match="lists of one length"):
        _entries([0.1], [1.0], [5], [])


def test_more_mechanisms_than_a_ledger_shows_are_refused():
    count = bounds.MOST_ENTRIES
    full = [0.1] * count, [1.0] * count, list(range(1, count + 1)), [1] * count
    assert len(_entries(*full)) == bounds.MOST_ENTRIES
    with pytest.raises(ConfigError, match="at most 64"):
        _entries(*([*column, column[0]] for column in full))


@settings(max_examples=30, deadline=None)
@given(
    entries=st.lists(st.tuples(RATES, NOISES, SIZES), max_size=3),
    delta=st.floats(-100, -0.01).map(lambda power: 10**power),
    accountant=st.sampled_from(["pld", "rdp"]),
)
def test_within_the_bounds_no_accountant_raises(entries, delta, accountant):
    spent = _entries(*([(*entry, 1)[i] for entry in entries] for i in range(4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of dp_accounting's quotients, which may be infinite
        try:
            epsilon = compute_epsilon(spent, delta, accountant)
        except AccountingError:  # in words: the delta is too small for it
            return
    assert epsilon >= 0
