"""Values that several layers share: what they refuse, and what they assume when nothing is said."""

import pytest

from fl_dp.errors import ConfigError
from fl_dp.records import ClientProfile, Entry, RoundPlan, total_steps


def test_a_client_that_says_nothing_more_is_the_strictest() -> None:
    profile = ClientProfile("a", 100, 3.0, 1e-5, (), "pld")
    assert not profile.allow_unprotected
    assert not profile.vary_mechanism
    assert (profile.min_noise_multiplier, profile.retired) == (0.0, 0)


def test_a_round_is_private_unless_it_says_otherwise() -> None:
    assert RoundPlan("run", 1, "linear", 1, 64, 0.1, 0.0, 1.0, 1.0).private


@pytest.mark.parametrize(
    ("sample_rate", "noise_multiplier", "steps"),
    [(0.0, 1.0, 1), (1.0 + 1e-9, 1.0, 1), (0.1, -1e-9, 1), (0.1, float("inf"), 1), (0.1, 1.0, 0)],
)
def test_an_entry_out_of_range_is_refused(sample_rate: float, noise_multiplier: float, steps: int) -> None:
    with pytest.raises(ConfigError, match="Expected"):
        Entry(sample_rate, noise_multiplier, steps)


def test_the_ends_of_the_ranges_are_entries() -> None:
    assert Entry(1.0, 1e-9, 1).private
    assert not Entry(1.0, 0.0, 1).private
    assert total_steps([Entry(1.0, 0.0, 1), Entry(0.1, 1.0, 3)]) == 4
