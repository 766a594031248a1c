"""A client's walls and what it says of secure sums, from its own settings alone."""

from types import SimpleNamespace

import pytest

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.budgets import budget_of, profile_of
from fl_dp.federation.client.stating import _account
from fl_dp.federation.server.client_record import ClientRecord
from fl_dp.records import Entry

SHARED = Entry(0.1, 6.0, 5, 8)


def config(**changes: object) -> ClientConfig:
    return ClientConfig(client="a", ledger="x.sqlite", **changes)


def test_without_a_word_a_client_takes_no_part_in_secure_sums() -> None:
    profile = profile_of(config(), 640, (), "steady-rows", 0)
    assert (profile.allow_secure_sum, profile.epsilon_alone) == (False, 0.0)
    assert budget_of(config(), 640).epsilon_alone is None


@pytest.mark.parametrize("vary", [False, True])
def test_the_second_wall_is_the_clients_and_the_server_knows_it(vary: bool) -> None:
    own = config(allow_secure_sum=3, epsilon_alone=5.0, vary_mechanism=vary)
    assert budget_of(own, 640).epsilon_alone == 5.0
    profile = profile_of(own, 640, (), "steady-rows", 0)
    assert profile.allow_secure_sum
    assert ClientRecord(profile, 1, (), None).budget.epsilon_alone == 5.0


@pytest.mark.parametrize("value", [-1.0, 1e-9, float("inf")])
def test_a_second_wall_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="epsilon-alone"):
        config(epsilon_alone=value)


@pytest.mark.parametrize("spent", [(SHARED,), (Entry(0.1, 6.0, 5),), (Entry(0.5, 0.4, 50, 100),)])
def test_a_site_states_both_where_its_data_were_in_secure_sums(spent: tuple[Entry, ...]) -> None:
    own = config(epsilon=3.0)
    client = SimpleNamespace(settings=own, budget=budget_of(own, 640), public_size=640)
    stated = _account(client, spent, (), "steady-rows")  # type: ignore[arg-type]
    expected = compute_epsilon_alone(spent, 1e-5) if spent == (SHARED,) else None
    assert stated.epsilon_alone == expected
