"""Costs are those that the run's own planning and the accountant say, over all runs on one ledger."""

import hashlib
import re
from pathlib import Path

import pytest
from launch.sweep.fakes import looked_at

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import ReservationRequest
from fl_dp.launch.forecast import Timing, forecast_of
from fl_dp.launch.measuring import again
from fl_dp.launch.sweep import costs
from fl_dp.launch.sweep.costs import SweepCost, cost_of, noise_for_all
from fl_dp.launch.sweep.words import time_words
from fl_dp.records import Entry

RATE, STEPS = 64 / 700, 11  # of 700 records: 11 steps a round
NOWHERE = Path("nowhere")


def fixed(name: str, **config: object) -> object:
    return looked_at(name, **{"noise_multiplier": 4.0, "epsilon": 8.0, **config})


def shared(*runs: object, **more: object) -> SweepCost:
    return cost_of(runs, NOWHERE, **more)


def alone(*runs: object, **more: object) -> SweepCost:
    return cost_of(runs, None, **more)


def epsilon(steps: int, noise: float = 4.0) -> float:
    return compute_epsilon([Entry(RATE, noise, steps)], 1e-5)


BUDGETS = [looked_at("a", epsilon=1.0), looked_at("b", epsilon=3.0)]


def test_runs_on_one_ledger_cost_what_their_union_costs():
    cost = shared(fixed("a", learning_rate=0.5), fixed("b", learning_rate=1.0))
    assert [one.entry for one in cost.runs] == [Entry(RATE, 4.0, 2 * STEPS)] * 2
    assert cost.epsilon == epsilon(4 * STEPS)
    assert cost.runs[0].alone == epsilon(2 * STEPS) < cost.epsilon
    assert (cost.problems, cost.conflicts, cost.exactly, cost.before) == ([], [], True, False)


def test_runs_with_a_ledger_each_do_not_touch_each_other():
    cost = alone(*BUDGETS)
    assert [round(one.alone, 1) for one in cost.runs] == [1.0, 3.0]
    assert all(one.alone <= run.config.epsilon for one, run in zip(cost.runs, BUDGETS, strict=True))
    assert cost.problems == []
    assert cost.epsilon == compute_epsilon([one.entry for one in cost.runs], 1e-5) > 3.0


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        # a budget over auto noise would show nothing new on one ledger
        (BUDGETS, "for epsilon 3 alone the noise multiplier would be .*must keep"),
        # another rate or noise is declined as the run would be
        ([fixed("a"), fixed("b", expected_batch_size=128)], "its epsilon holds for one mechanism"),
        ([fixed("a"), fixed("b", noise_multiplier=5.0)], "its epsilon holds for one mechanism"),
        # a budget that the runs before have spent
        ([BUDGETS[0], looked_at("b", epsilon=1.0, learning_rate=0.5)], "of 1 is spent"),
    ],
)
def test_what_one_ledger_would_decline_is_a_problem_of_that_run(runs, words):
    ((number, why),) = shared(*runs).problems
    assert number == 1
    assert re.search(words, why)


def test_where_they_may_vary_auto_noise_spends_what_the_runs_before_left():
    cost = shared(*BUDGETS, vary=True)
    assert cost.problems == []
    assert 2.9 < cost.epsilon <= 3.0
    assert cost.runs[1].alone < 3.0


def test_the_last_run_may_be_cut_short_and_says_so():
    one = epsilon(3 * STEPS)
    cost = shared(fixed("a", epsilon=one), fixed("b", epsilon=one, momentum=0.5))
    assert [run.rounds for run in cost.runs] == [2, 1]
    assert cost.epsilon <= one


def test_what_the_ledger_holds_counts(tmp_path):
    dataset = "npz:/data/x.npz, part 0/2 (iid, seed 0)"
    with Ledger.open(ledger_file(tmp_path)) as ledger:
        fingerprint = hashlib.sha256(b"x").hexdigest()
        ledger.register(dataset, fingerprint, 700, source="npz:/data/x.npz", cut="2 parts (iid, seed 0)")
        request = ReservationRequest(dataset, "earlier", 1, Entry(RATE, 4.0, 5), Budget(8.0, 1e-5))
        (paid,) = ledger.reserve_all([request])
        ledger.commit(paid)
    cost = cost_of([fixed("a")], tmp_path)
    assert cost.before
    assert cost.epsilon == compute_epsilon([Entry(RATE, 4.0, 5 + 2 * STEPS)], 1e-5)
    ((_, why),) = cost_of([fixed("a", seed=1)], tmp_path).conflicts
    assert "seed 1" in why
    assert "seed 0" in why


def test_seeds_that_split_the_same_records_anew_do_not_fit_one_ledger():
    ((number, why),) = shared(fixed("a", seed=0), fixed("a", seed=1)).conflicts
    assert (number, "same seed" in why) == (1, True)
    assert shared(*(fixed("a", seed=seed, data="npz:/data/{client}.npz") for seed in (0, 1))).conflicts == []


def test_a_conflict_of_one_client_alone_is_seen(tmp_path):
    """Also where the client is like another one in size and in what it has spent."""
    with Ledger.open(ledger_file(tmp_path)) as ledger:
        second = hashlib.sha256(b"1").hexdigest()
        ledger.register("npz:/d/1.npz, part 0/9", second, 700, source="npz:/d/1.npz", cut="9 parts")
    ((_, why),) = cost_of([fixed("a", data="npz:/d/{client}.npz")], tmp_path).conflicts
    assert "npz:/d/1.npz" in why


def test_one_noise_for_all_keeps_all_within_the_least_budget_at_each_clients_own_delta():
    noise = noise_for_all(BUDGETS, shared(*BUDGETS))
    assert 0.99 < epsilon(4 * STEPS, noise) <= 1.0
    other = [BUDGETS[0], looked_at("b", expected_batch_size=128)]
    assert noise_for_all(other, shared(*other)) is None


def test_who_is_drawn_by_chance_costs_at_most_all_rounds_and_usually_fewer():
    run = fixed("a", sizes=[700] * 4, clients=4, fit_clients=2)
    most, usual = (alone(run, usual=usual) for usual in (False, True))
    assert not most.exactly
    assert [one.runs[0].entry.steps for one in (most, usual)] == [2 * STEPS, STEPS]


def test_without_privacy_nothing_holds_and_the_others_are_added_up():
    cost = alone(looked_at("open", privacy="off"), fixed("a"))
    assert cost.runs[0].alone == float("inf")
    assert cost.epsilon == cost.runs[1].alone


@pytest.mark.parametrize("cost", [shared, alone])
def test_the_costliest_client_counts(cost):
    """Of public data, too, of which it is said what the sweep would cost on private ones."""
    one = cost(fixed("a"))
    assert one.epsilon < cost(fixed("a", sizes=(700, 100))).epsilon


def test_members_of_a_sum_are_charged_one_noise():
    def of_sums(**config):
        wanted = {"clients": 4, "min_clients": 4, "fit_clients": 4, "epsilon": 50.0, **config}
        return looked_at("s", sizes=(128, 256, 640, 640), aggregation="secure", **wanted)

    run = of_sums(noise_multiplier=6.0)
    assert shared(run).epsilon == alone(run).epsilon == compute_epsilon([Entry(0.5, 6.0, 2, 3)], 1e-5)
    twice = shared(of_sums(epsilon=3.0), of_sums(epsilon=3.0, learning_rate=0.5))
    assert [("no room for another step" in one.problem) for one in twice.runs] == [False, True]


def test_steps_that_are_alike_are_measured_once(monkeypatch):
    measured = []

    def timing_of(forecast, *, simulated, reading):
        measured.append(forecast.config)
        one = Timing(0.0, 0.2, 9, 64, 0.2, 0.0, 2, 1, 64, 64, 0, 0, around=10.0)
        return again(one, forecast, simulated=simulated)

    monkeypatch.setattr(costs, "timing_of", timing_of)
    monkeypatch.setattr(costs, "forecast_of", lambda *of: forecast_of(*of, {}))  # no model is needed
    runs = [fixed("a"), fixed("b", rounds=4), fixed("c", max_grad_norm=2.0), fixed("d", model="mlp")]
    found = costs.timings_of(runs, None)
    assert measured == [runs[0].config, runs[3].config]
    assert found[1].rounds == pytest.approx(2 * found[0].rounds) == pytest.approx(2 * found[2].rounds)
    words = time_words(found, 2)
    rounds = sum(one.rounds for one in found)
    assert f"about {rounds + 40 / 2:.0f} s: {rounds:.0f} s for the rounds of 4 runs" in words
    assert "2 at a time" in words
