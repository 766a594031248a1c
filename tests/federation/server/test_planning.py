"""A round at one client follows from public numbers alone."""

from dataclasses import replace

import pytest

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, ConfigError, FederationError
from fl_dp.federation.server.planning import budget_of, round_mechanism, round_plan
from fl_dp.records import ClientProfile, Entry

CONFIG = RunConfig(expected_batch_size=64, noise_multiplier=1.0, rounds=3, accountant="rdp")
AUTO = replace(CONFIG, noise_multiplier="auto")
PROFILE = ClientProfile("0", 640, 3.0, 1e-5, (), "rdp")


def test_a_client_with_fewer_records_than_a_batch_takes_all_of_them_in_every_step():
    profile = replace(PROFILE, public_size=28)
    mechanism = round_mechanism(profile, CONFIG)
    assert mechanism == Entry(1.0, 1.0, 1)
    plan = round_plan(profile, mechanism, CONFIG, "run", 2)
    assert (plan.expected_batch_size, plan.steps, plan.server_round) == (28, 1, 2)


@pytest.mark.parametrize(("participations", "rounds"), [(0, 20), (4, 4), (20, 20), ("auto", 13)])
def test_noise_is_planned_for_as_many_rounds_as_a_client_takes_part_in(participations, rounds):
    """auto: of 20 rounds with half of the clients each, nine of ten take part in 13 at most."""
    config = replace(AUTO, rounds=20, clients=10, fit_clients=5, participations=participations)
    mechanism = round_mechanism(PROFILE, config)
    planned = Entry(mechanism.sample_rate, mechanism.noise_multiplier, rounds * mechanism.steps)
    more = replace(planned, steps=planned.steps + mechanism.steps)
    assert 2.9 < compute_epsilon([planned], 1e-5, "rdp") <= 3.0 < compute_epsilon([more], 1e-5, "rdp")


def test_participations_that_cannot_be_meant():
    for wrong in (-1, 4):
        with pytest.raises(ConfigError, match=f"participations = {wrong}: expected"):
            replace(CONFIG, participations=wrong)


def test_auto_noise_counts_what_was_spent_before():
    spent = (Entry(0.1, 1.0, 3),)
    mechanism = round_mechanism(replace(PROFILE, spent=spent, vary_mechanism=True), AUTO)
    assert mechanism.noise_multiplier > round_mechanism(PROFILE, AUTO).noise_multiplier
    assert compute_epsilon([*spent, mechanism.taking(3)], 1e-5, "rdp") <= 3.0


@pytest.mark.parametrize(("of_run", "spends"), [(1.0, 1.0), (8.0, 3.0)])
def test_auto_noise_is_for_the_smaller_of_the_runs_epsilon_and_the_clients_own(of_run, spends):
    mechanism = round_mechanism(PROFILE, replace(AUTO, epsilon=of_run))
    cost = compute_epsilon([mechanism.taking(3 * mechanism.steps)], 1e-5, "rdp")
    assert 0.97 * spends < cost <= spends


IN_SUM = {"aggregation": "secure", "clients": 5, "fit_clients": 5, "min_clients": 5}


@pytest.mark.parametrize(
    ("spent", "sums", "limit"),
    [((), {}, 1.0), ((), IN_SUM, 6.0), ((Entry(0.1, 1.5, 1, 4),), {}, 4.0), ((), IN_SUM, 100.0)],
)
def test_auto_noise_lets_all_rounds_fit_epsilon_alone_too(spent, sums, limit):
    """Otherwise a budget that is told to the server ends before the run does."""
    profile = replace(PROFILE, spent=spent, vary_mechanism=True, allow_secure_sum=True)
    config, limited = replace(AUTO, **sums), replace(profile, epsilon_alone=limit)
    mechanism = round_mechanism(limited, config)
    cost = compute_epsilon_alone([*spent, mechanism.taking(3 * mechanism.steps)], 1e-5, "rdp")
    assert cost <= limit
    if limit < 100:
        assert 0.97 * limit < cost
        assert mechanism.noise_multiplier > round_mechanism(profile, config).noise_multiplier
    assert budget_of(limited).steps_that_fit(mechanism.taking(3), spent) == 3


def test_epsilon_alone_that_is_spent_leaves_no_mechanism():
    spent = (Entry(0.1, 1.5, 20, 4),)
    most = compute_epsilon_alone(spent, 1e-5, "rdp")
    profile = replace(PROFILE, spent=spent)
    assert round_mechanism(profile, AUTO).private
    with pytest.raises(AccountingError, match="if the assumption behind secure sums fails"):
        round_mechanism(replace(profile, epsilon_alone=most), AUTO)


def test_a_budget_that_is_spent_has_no_mechanism():
    """Also to the last digit, or to next to nothing."""
    spent, ten = (Entry(0.1, 0.5, 100),), (Entry(0.1, 1.0, 10),)
    fresh = round_mechanism(PROFILE, AUTO)
    nearly = (Entry(fresh.sample_rate, fresh.noise_multiplier, 30),)
    for profile, config, words in (
        (replace(PROFILE, spent=spent), AUTO, r"of 3 is spent at delta 1e-05, by rdp\."),
        (replace(PROFILE, spent=ten, epsilon=compute_epsilon(ten, 1e-5, "rdp")), CONFIG, "is spent"),
        (replace(PROFILE, spent=nearly, vary_mechanism=True), AUTO, "teach the model nothing"),
    ):
        with pytest.raises(AccountingError, match=words):
            round_mechanism(profile, config)


def test_auto_noise_is_that_of_the_data_so_far_and_at_least_what_the_client_accepts():
    profile = replace(PROFILE, spent=(Entry(0.1, 1.25, 3),))
    assert round_mechanism(profile, AUTO) == Entry(0.1, 1.25, 10)
    assert round_mechanism(replace(PROFILE, min_noise_multiplier=4.0), AUTO) == Entry(0.1, 4.0, 10)


@pytest.mark.parametrize("spent", [(Entry(0.05, 1.0, 3),), (Entry(0.1, 1.5, 3),)])
def test_another_mechanism_than_before_is_for_clients_that_let_it_vary(spent):
    profile = replace(PROFILE, spent=spent)
    with pytest.raises(FederationError, match="its epsilon holds for one mechanism"):
        round_mechanism(profile, CONFIG)
    assert round_mechanism(replace(profile, vary_mechanism=True), CONFIG) == Entry(0.1, 1.0, 10)


def test_an_absurd_number_of_steps_is_refused():
    with pytest.raises(FederationError, match="would take 15625000 steps"):
        round_mechanism(replace(PROFILE, public_size=10**9), CONFIG)


def test_the_unit_is_part_of_the_plan():
    config = replace(CONFIG, unit="person:who", records_per_person=4)
    for one in (CONFIG, config):
        assert round_plan(PROFILE, Entry(0.1, 1.0, 1), one, "run", 1).unit == one.unit_of_all


def test_clipping_is_in_the_plan_and_costs_nothing():
    config = replace(CONFIG, clipping="automatic")
    mechanism = round_mechanism(PROFILE, config)
    assert mechanism == round_mechanism(PROFILE, CONFIG)
    assert round_plan(PROFILE, mechanism, config, "run", 1).clipping == "automatic"


SECURE = replace(CONFIG, clients=5, min_clients=5, fit_clients=5, aggregation="secure:1")
MEMBER = replace(PROFILE, allow_secure_sum=True, accountant="pld")


def test_a_round_of_sums_is_one_step_with_a_share_of_what_is_left():
    with pytest.raises(FederationError, match="allow-secure-sum"):
        round_mechanism(PROFILE, SECURE)
    mechanism = round_mechanism(MEMBER, SECURE)
    assert mechanism == Entry(0.1, 1.0, 1, shares=3)
    plan = round_plan(MEMBER, mechanism, SECURE, "run", 1)
    assert (plan.steps, plan.shares) == (1, 3)
    assert plan.secure
