"""Metrics from the sites' own test records, from the server's request to its report, over real clients."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Error, Message
from run_records import summary

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.events import merge
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client import evaluation
from fl_dp.federation.server import site_metrics
from fl_dp.federation.server.client_record import AccountOfTests
from fl_dp.federation.server.site_metrics import Counted, metrics_of
from fl_dp.federation.server.state import read_state, write_state
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.evaluation import histogram_from_content, histogram_to_content
from fl_dp.federation.wire.messages import refusal_to_content
from fl_dp.form import Form
from fl_dp.records import TEST_RECORDS, Entry, Refusal
from fl_dp.reporting.console import round_line
from fl_dp.tasks.load import task_of
from fl_dp.tasks.score_histogram import Layout

SHARE = {"test": 0.5, "public-size": "auto", "evaluate-epsilon": 50.0, "delta": 1e-5}


def config(**changes):
    numbers = {"clients": 3, "min_clients": 3, "fit_clients": 3, "rounds": 3, "round_timeout": 60.0}
    noise = {"noise_multiplier": 8.0, "expected_batch_size": 30, "physical_batch_size": "auto"}
    return RunConfig(**{**numbers, **noise, "site_metrics": True, **changes})


def run(nodes, fakes, own, model, *ends):
    """ends: after which rounds the strategy is stopped, and the sites evaluate; it then goes on."""
    task_of(own).form = Form((4,), 3)
    start = state_arrays(model)
    strategy = PrivateStrategy(own, "run-1", specs(start), lambda report: None)
    grid = fakes.Grid(dict(enumerate(nodes, start=11)))
    for last in ends or (own.rounds,):
        strategy.start(grid, strategy.result.arrays or encode(start), num_rounds=last)
    return strategy, grid


def of_sites(report):
    return report.to_dict()["site_metrics"]


def of_accounts(strategy):
    return summary(test_accounts=strategy.test_accounts()).to_dict()["test_accounts"]


@pytest.fixture
def two(monkeypatch):
    """The budget of the sites' test records pays for two evaluations."""
    monkeypatch.setattr(
        evaluation, "_calibrated", lambda *budget: calibrate_noise(1.0, 2, *budget[:2], accountant=budget[2])
    )


@pytest.fixture
def sites(real_client):
    found = [real_client("a", **SHARE), real_client("b", **SHARE), real_client("c")]
    for number, one in enumerate(found):
        x = np.random.default_rng(number).normal(size=(100, 4)).astype(np.float32)
        one.give(x, np.argmax(x[:, :3], 1))
    return found


def test_shown_charges_stay_counted_when_a_site_does_not_answer(sites, fakes, two):
    """Two evaluations spent half of the budget each. Nobody answered the second: the epsilon of test data was
    0 again, as if nothing had been spent."""

    def gone_at_last(site):
        def answer(message):
            if message.metadata.message_type == "evaluate" and message.metadata.group_id == "3":
                return Message(Error(1, "gone"), reply_to=message)
            return site(message)

        return answer

    strategy, _ = run([gone_at_last(one) for one in sites], fakes, config(), sites[0].model, 2, 3)
    first, last = map(of_sites, strategy.reports[1:])
    assert {one["status"] for one in last["sites"].values()} == {"failed"}
    assert last["metrics"] == {}
    assert 25 < first["epsilon"] < last["epsilon"] <= 50  # they may have paid
    assert last["delta"] == first["delta"]
    idle = of_accounts(strategy)  # also of the sites that are not asked again
    assert (idle["epsilon"], idle["sites"]["c"]["status"]) == (last["epsilon"], "failed")
    assert "epsilon" not in idle["sites"]["c"]  # it declares no test records


def losing(site, *rounds):
    """It does what it is asked for; its answers to the evaluations of these rounds are lost."""

    def answer(message):
        reply = site(message)
        is_lost = message.metadata.message_type == "evaluate" and message.metadata.group_id in map(
            str, rounds
        )
        return Message(Error(1, "gone"), reply_to=message) if is_lost else reply

    return answer


@pytest.mark.parametrize(("lost", "unheard"), [((3,), 1), ((2,), 0), ((2, 3), 2)])
def test_a_lost_answer_counts_in_the_epsilon_of_test_records(sites, fakes, two, lost, unheard):
    """It counts until the site shows its account again. Site b only declines."""
    sites[1] = lying_refusal(sites[1])
    strategy, _ = run([losing(sites[0], *lost), *sites[1:]], fakes, config(), sites[0].model, 2, 3)
    first, last = map(of_sites, strategy.reports[1:])
    with Ledger.open_existing(Path(sites[0].config.ledger)) as ledger:
        (account,) = (one for one in ledger.accounts() if one.dataset.endswith(TEST_RECORDS))
    paid = merge(one.entry for one in account.rounds)
    one = last["sites"]["a"]
    cost = 50.0 if 2 in lost and 3 in lost else Budget(50.0, 1e-5, one["accountant"]).epsilon_of(paid)
    assert one["epsilon"] == last["epsilon"] == pytest.approx(cost)
    assert one.get("unheard", 0) == unheard
    assert ("at most" in round_line(strategy.reports[-1], 3)) is bool(unheard)
    if 2 in lost:  # nobody had heard of its account
        assert first["sites"]["a"] | {"reason": ""} == {
            "status": "failed",
            "reason": "",
            "epsilon": 50.0,
            "delta": 1e-5,
            "budget": 50.0,
            "accountant": one["accountant"],
            "charges": [],
            "unheard": 1,
        }
    assert last["sites"]["b"] == {"status": "declined", "reason": "no"}


def lying_refusal(site):
    def answer(message):
        is_evaluation = message.metadata.message_type == "evaluate"
        content = refusal_to_content(Refusal("declined", "no")) if is_evaluation else None
        return Message(content, reply_to=message) if content else site(message)

    return answer


@pytest.mark.parametrize("renamed", [False, True])
def test_a_resumed_run_remembers_the_cost_of_test_records(sites, fakes, tmp_path, two, renamed):
    """Site a is gone for ever after the evaluation of round 2; the run was ended in round 3."""
    own = config()
    strategy, _ = run(sites, fakes, own, sites[0].model, 2)
    shown = of_sites(strategy.reports[1])["sites"]["a"]
    charges = tuple(map(Entry.from_dict, shown["charges"]))
    tests = AccountOfTests(Budget(50.0, 1e-5, shown["accountant"]), charges)
    before = strategy.state(1.0)
    clients = (replace(one, tests=tests if one.name in "ab" else None) for one in before.clients)
    before = replace(before, clients=tuple(clients))
    write_state(tmp_path / "state", before)
    state = read_state(tmp_path / "state")
    start = state_arrays(sites[0].model)
    again = PrivateStrategy(own, "run-2" if renamed else "run-1", specs(start), lambda report: None)
    again.resume(state)
    found = of_accounts(again)
    assert found["sites"]["a"]["charges"] == [{**shown["charges"][0], "steps": 2}]  # it may have paid for 3
    assert shown["epsilon"] < found["epsilon"] == found["sites"]["a"]["epsilon"] <= 50
    assert next(one for one in again.state(0.0).clients if one.name == "a").tests.unheard == 1


def test_sites_are_asked_once_after_the_last_round(sites, fakes, tmp_path):
    own = config()
    strategy, grid = run(sites, fakes, own, sites[0].model)
    assert [report.site_metrics is not None for report in strategy.reports] == [False, False, True]
    assert sum(one.metadata.message_type == "evaluate" for one in grid.sent) == 3
    last = of_sites(strategy.reports[-1])
    assert {name: one["status"] for name, one in last["sites"].items()} == {
        "a": "evaluated",
        "b": "evaluated",
        "c": "declined",
    }
    assert "declares no test records" in last["sites"]["c"]["reason"]
    (charge,) = last["sites"]["a"]["charges"]
    assert charge["steps"] == 1
    assert charge["sample_rate"] == 1.0
    assert 49 < last["epsilon"] <= 50
    assert last["metrics"]["records"]["value"] == pytest.approx(100, abs=25)
    found = last["metrics"]["accuracy"]
    assert found["low"] < found["value"] < found["high"]
    # a report that is written and read again is the same, and the console shows it
    line = strategy.reports[-1].to_dict()
    counted = np.array([one["counts"] for one in last["outcomes"]["scores"]]).sum((1, 2))
    assert counted == pytest.approx([100] * 3, abs=40)  # in each class's block
    assert json.loads(json.dumps(line["site_metrics"])) == last
    assert "sites' auroc" in round_line(strategy.reports[-1], 3)
    assert "site_metrics" not in strategy.reports[0].to_dict()
    write_state(tmp_path / "state", strategy.state(1.0))
    report = read_state(tmp_path / "state").last  # a run resumes from it
    assert report.to_dict()["site_metrics"] == last


def test_without_the_key_no_site_is_asked(sites, fakes):
    strategy, grid = run(sites, fakes, config(rounds=1, site_metrics=False), sites[0].model)
    assert strategy.reports[-1].site_metrics is None
    assert not any(one.metadata.message_type == "evaluate" for one in grid.sent)


@pytest.mark.parametrize("again", [0, 1])
def test_an_account_that_lacks_earlier_charges_lowers_nothing(sites, fakes, monkeypatch, again):
    """A ledger that was restored from a backup: the epsilon of test records fell to its own."""
    shown = []

    def restored(one):
        shown.append(one)
        return shown[again] if len(shown) == 3 else one

    monkeypatch.setattr(
        evaluation, "_calibrated", lambda *budget: calibrate_noise(1.0, 3, *budget[:2], accountant=budget[2])
    )
    taken = list[int]()

    def counting(layout, counted, classes):
        taken.append(len(counted))
        return metrics_of(layout, counted, classes)

    monkeypatch.setattr(site_metrics, "metrics_of", counting)
    strategy, _ = run([lying(sites[0], restored), *sites[1:]], fakes, config(), sites[0].model, 1, 2, 3)
    assert taken[-1] == taken[0] - 1  # whose line says that it gives no metrics is not in them
    before, last = (of_sites(report)["sites"]["a"] for report in strategy.reports[1:])
    assert (last["status"], last["unheard"]) == ("failed", 1)
    assert "lacks earlier evaluations" in last["reason"]
    assert before["epsilon"] < last["epsilon"] <= 50


def lying(site, lie):
    def node(message):
        reply = site(message)
        if message.metadata.message_type != "evaluate":
            return reply
        return Message(histogram_to_content(lie(histogram_from_content(reply.content))), reply_to=message)

    return node


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda one: replace(one, epsilon=one.epsilon / 2), "its evaluations cost"),
        (lambda one: replace(one, budget=one.epsilon / 2), "over its budget"),
        (lambda one: replace(one, cells=one.cells[1:]), "a histogram of 64 cells, expected 65"),
        (lambda one: replace(one, cells=one.cells * 1e300), "counts beyond 1e+15"),
        (lambda one: replace(one, spent=()), "something other than equal evaluations"),
        (lambda one: replace(one, spent=(Entry(0.5, 1.0, 1),)), "something other than equal evaluations"),
        (lambda one: replace(one, accountant="none"), "none"),
    ],
    ids=["epsilon", "budget", "cells", "overflow", "nothing", "sampled", "accountant"],
)
def test_a_site_whose_account_does_not_fit_is_left_out(sites, fakes, lie, reason):
    nodes = [lying(sites[0], lie), *sites[1:]]
    strategy, _ = run(nodes, fakes, config(rounds=1), sites[0].model)
    last = of_sites(strategy.reports[-1])
    assert last["sites"]["a"]["status"] == "failed"
    assert reason in last["sites"]["a"]["reason"]
    assert last["metrics"]["records"]["value"] == pytest.approx(50, abs=20)  # of site b alone


def test_a_silent_site_does_not_hold_up_the_others(sites, fakes):
    def silent(message):
        return None if message.metadata.message_type == "evaluate" else sites[2](message)

    own = config(rounds=1, round_timeout=2.0)
    strategy, _ = run([*sites[:2], silent], fakes, own, sites[0].model)
    last = of_sites(strategy.reports[-1])
    assert last["sites"]["c"] == {"status": "failed", "reason": "no answer before the evaluation was closed"}
    assert last["sites"]["a"]["status"] == "evaluated"


def test_histograms_and_the_variances_of_their_noise_add_up():
    layout = Layout.of(Form((3,), 2), 1)
    one, other = np.zeros(layout.size), np.zeros(layout.size)
    one[[0, 15]] = 5  # all of these are right, and none of those
    other[[1, 14]] = 5
    found = metrics_of(layout, [Counted(one, 0.3), Counted(other, 0.4)], ("no", "yes"))
    assert found["metrics"]["records"].value == pytest.approx(20)
    assert found["metrics"]["accuracy"].value == pytest.approx(0.5)
    (drawn,) = found["outcomes"]["scores"]
    assert drawn["counts"] == [[5, 5], *[[0, 0]] * 6, [5, 5]]
    assert drawn["deviation"] == pytest.approx(0.5)
    assert metrics_of(layout, [], ()) == {"metrics": {}, "outcomes": {}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": "off"}, "privacy = 'off'"),
        ({"personal": "head.*", "evaluate": "off"}, "personal = "),
        ({"strategy": "x.py:F"}, "strategy = "),
        ({"aggregation": "secure"}, "site-metrics = True: expected false, .*fl-dp client --evaluate"),
    ],
)
def test_settings_without_an_account_of_test_records_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        config(**changes)
