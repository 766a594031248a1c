"""A round at one client follows from public numbers alone."""

import dataclasses

import pytest

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.config.run import RunConfig
from fl_dp.errors import AccountingError, ConfigError, FederationError
from fl_dp.federation.server.planning import round_mechanism, round_plan
from fl_dp.records import ClientProfile, Entry

CONFIG = RunConfig(expected_batch_size=64, noise_multiplier=1.0, rounds=3, accountant="rdp")
PROFILE = ClientProfile("0", 640, 3.0, 1e-5, (), "rdp")


def test_a_round_is_the_local_epochs_in_poisson_batches():
    assert round_mechanism(PROFILE, CONFIG) == Entry(0.1, 1.0, 10)
    config = dataclasses.replace(CONFIG, local_epochs=2.05)
    assert round_mechanism(PROFILE, config) == Entry(0.1, 1.0, 21)


def test_a_client_with_fewer_records_than_a_batch_takes_all_of_them_in_every_step():
    profile = dataclasses.replace(PROFILE, public_size=28)
    mechanism = round_mechanism(profile, CONFIG)
    assert mechanism == Entry(1.0, 1.0, 1)
    plan = round_plan(profile, mechanism, CONFIG, "run", 2)
    assert (plan.expected_batch_size, plan.steps, plan.server_round) == (28, 1, 2)


def test_auto_noise_makes_all_rounds_fit_the_clients_own_budget():
    config = dataclasses.replace(CONFIG, noise_multiplier="auto")
    mechanism = round_mechanism(PROFILE, config)
    whole_run = Entry(mechanism.sample_rate, mechanism.noise_multiplier, 3 * mechanism.steps)
    assert 2.9 < compute_epsilon([whole_run], 1e-5, "rdp") <= 3.0


@pytest.mark.parametrize(("participations", "rounds"), [(0, 20), (4, 4), (20, 20), ("auto", 13)])
def test_noise_is_planned_for_as_many_rounds_as_a_client_takes_part_in(participations, rounds):
    """auto: of 20 rounds with half of the clients each, nine of ten take part in 13 at most."""
    config = dataclasses.replace(
        CONFIG, noise_multiplier="auto", rounds=20, clients=10, fit_clients=5, participations=participations
    )
    mechanism = round_mechanism(PROFILE, config)
    planned = Entry(mechanism.sample_rate, mechanism.noise_multiplier, rounds * mechanism.steps)
    more = dataclasses.replace(planned, steps=planned.steps + mechanism.steps)
    assert 2.9 < compute_epsilon([planned], 1e-5, "rdp") <= 3.0 < compute_epsilon([more], 1e-5, "rdp")


def test_participations_that_cannot_be_meant():
    for wrong in (-1, 4):
        with pytest.raises(ConfigError, match=f"participations = {wrong}: expected"):
            dataclasses.replace(CONFIG, participations=wrong)


def test_auto_noise_counts_what_was_spent_before():
    config = dataclasses.replace(CONFIG, noise_multiplier="auto")
    spent = (Entry(0.1, 1.0, 3),)
    mechanism = round_mechanism(dataclasses.replace(PROFILE, spent=spent, vary_mechanism=True), config)
    whole_run = Entry(mechanism.sample_rate, mechanism.noise_multiplier, 3 * mechanism.steps)
    assert mechanism.noise_multiplier > round_mechanism(PROFILE, config).noise_multiplier
    assert compute_epsilon([*spent, whole_run], 1e-5, "rdp") <= 3.0


def test_a_budget_that_is_spent_has_no_mechanism():
    spent = (Entry(0.1, 0.5, 100),)
    config = dataclasses.replace(CONFIG, noise_multiplier="auto")
    with pytest.raises(AccountingError, match=r"of 3 is spent at delta 1e-05, by rdp\."):
        round_mechanism(dataclasses.replace(PROFILE, spent=spent), config)


def test_a_budget_that_is_spent_to_the_last_digit_is_spent():
    spent = (Entry(0.1, 1.0, 10),)
    budget = compute_epsilon(spent, PROFILE.delta, "rdp")
    with pytest.raises(AccountingError, match="is spent"):
        round_mechanism(dataclasses.replace(PROFILE, epsilon=budget, spent=spent), CONFIG)


def test_a_budget_with_next_to_nothing_left_counts_as_spent():
    config = dataclasses.replace(CONFIG, noise_multiplier="auto")
    fresh = round_mechanism(PROFILE, config)
    spent = (Entry(fresh.sample_rate, fresh.noise_multiplier, 30),)
    with pytest.raises(AccountingError, match="teach the model nothing"):
        round_mechanism(dataclasses.replace(PROFILE, spent=spent, vary_mechanism=True), config)


def test_auto_noise_goes_on_with_the_noise_that_the_data_were_trained_with():
    config = dataclasses.replace(CONFIG, noise_multiplier="auto")
    profile = dataclasses.replace(PROFILE, spent=(Entry(0.1, 1.25, 3),))
    assert round_mechanism(profile, config) == Entry(0.1, 1.25, 10)


@pytest.mark.parametrize("spent", [(Entry(0.05, 1.0, 3),), (Entry(0.1, 1.5, 3),)])
def test_another_mechanism_than_before_is_for_clients_that_let_it_vary(spent):
    profile = dataclasses.replace(PROFILE, spent=spent)
    with pytest.raises(FederationError, match="its epsilon holds for one mechanism"):
        round_mechanism(profile, CONFIG)
    assert round_mechanism(dataclasses.replace(profile, vary_mechanism=True), CONFIG) == Entry(0.1, 1.0, 10)


def test_auto_noise_is_at_least_what_the_client_accepts():
    config = dataclasses.replace(CONFIG, noise_multiplier="auto")
    profile = dataclasses.replace(PROFILE, min_noise_multiplier=4.0)
    assert round_mechanism(profile, config) == Entry(0.1, 4.0, 10)


def test_an_absurd_number_of_steps_is_refused():
    profile = dataclasses.replace(PROFILE, public_size=10**9)
    with pytest.raises(FederationError, match="would take 15625000 steps"):
        round_mechanism(profile, CONFIG)


def test_the_unit_is_part_of_the_plan():
    config = dataclasses.replace(CONFIG, unit="person:who", records_per_person=4)
    for one in (CONFIG, config):
        assert round_plan(PROFILE, Entry(0.1, 1.0, 1), one, "run", 1).unit == one.unit_of_all


def test_a_client_whose_count_would_say_nothing_takes_no_part():
    config = dataclasses.replace(CONFIG, adaptive_clipping="quantile:0.5")
    mechanism = round_mechanism(PROFILE, config)
    assert mechanism == round_mechanism(
        PROFILE, CONFIG
    )  # the count costs nothing beside the noise multiplier
    assert round_plan(PROFILE, mechanism, config, "run", 1).adaptive_clipping == "quantile:0.5"
    with pytest.raises(FederationError, match="an expected batch of 3 is too small"):
        round_mechanism(dataclasses.replace(PROFILE, public_size=3), config)


SECURE = dataclasses.replace(
    CONFIG, clients=5, min_clients=5, fit_clients=5, aggregation="secure", secure_dropouts=1
)


def test_a_client_that_gives_to_no_sums_has_no_part_in_a_run_of_them():
    with pytest.raises(FederationError, match="allow-secure-sum"):
        round_mechanism(PROFILE, SECURE)


def test_a_round_of_sums_is_one_step_with_a_share_of_what_is_left():
    profile = dataclasses.replace(PROFILE, allow_secure_sum=True)
    mechanism = round_mechanism(profile, SECURE)
    assert mechanism == Entry(0.1, 1.0, 1, shares=3)
    plan = round_plan(profile, mechanism, SECURE, "run", 1)
    assert (plan.steps, plan.shares, plan.copies, plan.most_rate) == (1, 3, 1, 0.0)
    assert plan.secure


def test_a_person_at_two_members_is_accounted_for_by_the_plan():
    profile = dataclasses.replace(PROFILE, allow_secure_sum=True, accountant="pld")
    config = dataclasses.replace(SECURE, clients_per_person=2, accountant="pld")
    mechanism = round_mechanism(profile, config)
    assert mechanism == Entry(0.1, 1.0, 1, shares=3, copies=2)
    plan = round_plan(profile, mechanism, config, "run", 1)
    assert (plan.copies, plan.most_rate) == (2, 0.1)


def test_noise_for_a_person_at_two_members_fits_the_budget_of_both():
    profile = dataclasses.replace(PROFILE, allow_secure_sum=True, accountant="pld")
    config = dataclasses.replace(SECURE, clients_per_person=2, accountant="pld", noise_multiplier="auto")
    mechanism = round_mechanism(profile, config)
    whole_run = mechanism.taking(config.rounds)
    assert 2.9 < compute_epsilon([whole_run], 1e-5, "pld") <= 3.0
