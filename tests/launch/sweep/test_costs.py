"""Costs are those that the run's own planning and the accountant say, over all runs on one ledger."""

import hashlib
from pathlib import Path

import pytest
from launch.sweep.fakes import looked_at

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.launch.sweep.costs import cost_of, noise_for_all
from fl_dp.records import Entry

RATE, STEPS = 64 / 700, 11  # of 700 records: 11 steps a round
NOWHERE = Path("nowhere")


def fixed(name: str, **config: object) -> object:
    return looked_at(name, noise_multiplier=4.0, epsilon=8.0, **config)


def test_runs_on_one_ledger_cost_what_their_union_costs():
    runs = [fixed("a", learning_rate=0.5), fixed("b", learning_rate=1.0)]
    cost = cost_of(runs, NOWHERE, shared=True)
    assert [one.mechanism for one in cost.runs] == [Entry(RATE, 4.0, 2 * STEPS)] * 2
    assert cost.epsilon == compute_epsilon([Entry(RATE, 4.0, 4 * STEPS)], 1e-5)
    assert cost.runs[0].epsilon == compute_epsilon([Entry(RATE, 4.0, 2 * STEPS)], 1e-5) < cost.epsilon
    assert (cost.problems, cost.conflicts, cost.exactly, cost.before) == ([], [], True, False)


def test_runs_with_a_ledger_each_do_not_touch_each_other():
    runs = [looked_at("a", epsilon=1.0), looked_at("b", epsilon=3.0)]
    cost = cost_of(runs, None, shared=False)
    assert [round(one.epsilon, 1) for one in cost.runs] == [1.0, 3.0]
    assert all(one.epsilon <= run.config.epsilon for one, run in zip(cost.runs, runs, strict=True))
    assert cost.problems == []
    assert cost.epsilon == compute_epsilon([one.mechanism for one in cost.runs], 1e-5) > 3.0


def test_a_budget_over_auto_noise_would_show_nothing_new_on_one_ledger():
    runs = [looked_at("a", epsilon=1.0), looked_at("b", epsilon=3.0)]
    ((number, why),) = cost_of(runs, NOWHERE, shared=True).problems
    assert number == 1
    assert "epsilon 3 alone would take noise multiplier" in why
    assert "keep to" in why


def test_another_rate_or_noise_is_declined_as_the_run_would_be():
    for other in ({"expected_batch_size": 128}, {"noise_multiplier": 5.0}):
        runs = [fixed("a"), looked_at("b", **{"noise_multiplier": 4.0, "epsilon": 8.0, **other})]
        ((number, why),) = cost_of(runs, NOWHERE, shared=True).problems
        assert (number, "its epsilon holds for one mechanism" in why) == (1, True)


def test_where_they_may_vary_auto_noise_spends_what_the_runs_before_left():
    runs = [looked_at("a", epsilon=1.0), looked_at("b", epsilon=3.0)]
    cost = cost_of(runs, NOWHERE, shared=True, vary=True)
    assert cost.problems == []
    assert 2.9 < cost.epsilon <= 3.0
    assert cost.runs[1].epsilon < 3.0


def test_a_budget_that_the_runs_before_have_spent_is_a_problem():
    runs = [looked_at(name, epsilon=1.0, learning_rate=rate) for name, rate in (("a", 0.5), ("b", 1.0))]
    ((number, why),) = cost_of(runs, NOWHERE, shared=True).problems
    assert number == 1
    assert "of 1 is spent" in why


def test_the_last_run_may_be_cut_short_and_says_so():
    one = compute_epsilon([Entry(RATE, 4.0, 3 * STEPS)], 1e-5)
    runs = [
        looked_at(name, noise_multiplier=4.0, epsilon=one, momentum=m) for name, m in (("a", 0.0), ("b", 0.5))
    ]
    cost = cost_of(runs, NOWHERE, shared=True)
    assert [run.rounds for run in cost.runs] == [2, 1]
    assert cost.epsilon <= one


def test_what_the_ledger_holds_counts(tmp_path):
    dataset = "npz:/data/x.npz, part 0/2 (iid, seed 0)"
    with Ledger.open(ledger_file(tmp_path)) as ledger:
        fingerprint = hashlib.sha256(b"x").hexdigest()
        ledger.register(dataset, fingerprint, 700, source="npz:/data/x.npz", cut="2 parts (iid, seed 0)")
        request = ReservationRequest(dataset, "earlier", 1, (RATE, 4.0), 5, Budget(8.0, 1e-5))
        (paid,) = ledger.reserve_all([request])
        ledger.commit(paid)
    cost = cost_of([fixed("a")], tmp_path, shared=True)
    assert cost.before
    assert cost.epsilon == compute_epsilon([Entry(RATE, 4.0, 5 + 2 * STEPS)], 1e-5)
    ((_, why),) = cost_of([fixed("a", seed=1)], tmp_path, shared=True).conflicts
    assert "seed 1" in why
    assert "seed 0" in why


def test_seeds_that_split_the_same_records_anew_do_not_fit_one_ledger():
    runs = [fixed("a", seed=0), fixed("a", seed=1)]
    ((number, why),) = cost_of(runs, NOWHERE, shared=True).conflicts
    assert (number, "one seed" in why) == (1, True)
    by_client = [fixed("a", seed=seed, data="npz:/data/{client}.npz") for seed in (0, 1)]
    assert cost_of(by_client, NOWHERE, shared=True).conflicts == []


def test_a_conflict_of_one_client_alone_is_seen(tmp_path):
    """Also where the client is like another one in size and in what it has spent."""
    with Ledger.open(ledger_file(tmp_path)) as ledger:
        second = hashlib.sha256(b"1").hexdigest()
        ledger.register("npz:/d/1.npz, part 0/9", second, 700, source="npz:/d/1.npz", cut="9 parts")
    ((_, why),) = cost_of([fixed("a", data="npz:/d/{client}.npz")], tmp_path, shared=True).conflicts
    assert "npz:/d/1.npz" in why


def test_one_noise_for_all_keeps_all_within_the_least_budget():
    runs = [looked_at("a", epsilon=1.0), looked_at("b", epsilon=3.0)]
    noise = noise_for_all(runs, cost_of(runs, NOWHERE, shared=True))
    assert noise is not None
    assert 0.99 < compute_epsilon([Entry(RATE, noise, 4 * STEPS)], 1e-5) <= 1.0
    other = [runs[0], looked_at("b", expected_batch_size=128)]
    assert noise_for_all(other, cost_of(other, NOWHERE, shared=True)) is None


def test_who_is_drawn_by_chance_costs_at_most_all_rounds_and_usually_fewer():
    runs = [looked_at("a", sizes=[700] * 4, clients=4, fit_clients=2, noise_multiplier=4.0, epsilon=8.0)]
    most, usual = (cost_of(runs, None, shared=False, usual=usual) for usual in (False, True))
    assert not most.exactly
    assert [one.runs[0].mechanism.steps for one in (most, usual)] == [2 * STEPS, STEPS]


def test_without_privacy_nothing_holds_and_the_others_are_added_up():
    runs = [looked_at("open", privacy="off"), fixed("a")]
    cost = cost_of(runs, None, shared=False)
    assert cost.runs[0].epsilon == float("inf")
    assert cost.epsilon == cost.runs[1].epsilon


def test_clients_of_other_sizes_cost_what_the_costliest_does():
    runs = [fixed("a")]
    small = looked_at("a", sizes=(700, 100), noise_multiplier=4.0, epsilon=8.0)
    for shared in (True, False):
        costs = [cost_of([one], NOWHERE, shared=shared).epsilon for one in (runs[0], small)]
        assert costs[0] < costs[1]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("persons", [1, 2])
def test_one_person_at_several_clients_adds_up(persons, shared):
    """Of public data, too, of which it is said what the sweep would cost on private ones."""
    one = cost_of([fixed("a")], NOWHERE, shared=shared)
    several = cost_of([fixed("a", clients_per_person=persons)], NOWHERE, shared=shared)
    assert (several.epsilon, several.delta) == (one.epsilon * persons, one.delta * persons)


def test_one_noise_for_all_is_for_each_clients_own_delta():
    runs = [looked_at("a", epsilon=1.0, clients_per_person=2)]
    of_one = [looked_at("a", epsilon=1.0)]
    found = [noise_for_all(one, cost_of(one, NOWHERE, shared=True)) for one in (runs, of_one)]
    assert found[0] == found[1]


def of_sums(**config: object) -> object:
    wanted = {"clients": 4, "min_clients": 4, "fit_clients": 4, "epsilon": 50.0, **config}
    return looked_at("s", sizes=(128, 256, 640, 640), aggregation="secure", **wanted)


def test_members_of_a_sum_are_charged_one_noise_and_of_persons_one_rate():
    run = of_sums(noise_multiplier=6.0, clients_per_person=2)
    of_each = compute_epsilon([Entry(0.5, 6.0, 2, 3, 2)], 1e-5)
    for shared in (True, False):
        assert cost_of([run], NOWHERE, shared=shared).epsilon == 2 * of_each
    assert noise_for_all([run], cost_of([run], NOWHERE, shared=True)) is None
    twice = cost_of([of_sums(epsilon=3.0), of_sums(epsilon=3.0, learning_rate=0.5)], NOWHERE, shared=True)
    assert [("not one step more" in one.problem) for one in twice.runs] == [False, True]
