"""What is foreseen of a client is what its own ledger then pays for, to the step and to the last bit."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from launch.commands import fl_dp, json_lines

from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import DataDeclaration
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import BudgetExhaustedError
from fl_dp.federation.client.budgets import budget_of
from fl_dp.federation.client.registration import cut_of, dataset_name, records_name
from fl_dp.federation.server.planning import round_mechanism
from fl_dp.launch.clients import client_config
from fl_dp.launch.forecast import ForeseenAccounts, in_common, mean_rounds, spending_of, takes_every_round
from fl_dp.records import PROVEN, Entry, total_steps
from fl_dp.tasks.records import load_parts

SIZE = 640  # records: 10 steps a round
FIXED = RunConfig(rounds=4, noise_multiplier=2.0, accountant="rdp", epsilon=3.0)
AUTO = replace(FIXED, noise_multiplier="auto")


def settings_of(config: RunConfig, folder: Path, client: int = 0, **own: Any) -> ClientConfig:
    return replace(client_config(config, client, folder), **own)


def open_with(settings: ClientConfig, folder: Path) -> Ledger:
    ledger = Ledger.open(ledger_file(folder))
    declared = DataDeclaration(
        dataset_name(settings), "f", SIZE, source=records_name(settings), cut=cut_of(settings)
    )
    ledger.register_all([declared])
    return ledger


def really_spent(ledger: Ledger, settings: ClientConfig, config: RunConfig, rounds: int) -> tuple[int, int]:
    """Pay for the rounds as a client does, by its own budget: rounds and steps that its ledger pays for."""
    dataset, budget = dataset_name(settings), budget_of(settings, SIZE)
    profile = ForeseenAccounts(Path(settings.ledger).parent).profile(settings, SIZE)
    mechanism = round_mechanism(profile, config)
    pays, paid = (mechanism.sample_rate, mechanism.noise_multiplier), []
    for number in range(1, rounds + 1):
        try:
            paid.append(ledger.reserve(dataset, "this", number, Entry(*pays, mechanism.steps), budget))
        except BudgetExhaustedError:
            break
    return len(paid), sum(one.entry.steps for one in paid)


def spend_before(ledger: Ledger, settings: ClientConfig, steps: int, noise: float = 2.0) -> None:
    budget = budget_of(replace(settings, epsilon=100.0), SIZE)
    ledger.reserve(dataset_name(settings), "earlier", 1, Entry(0.1, noise, steps), budget)


@pytest.mark.parametrize(
    ("config", "own", "before", "rounds"),
    [
        (FIXED, {}, 0, 4),
        (FIXED, {}, 23, 4),
        (FIXED, {"epsilon": 0.9}, 0, 4),  # the site's own limit is lower than the run's
        (FIXED, {"epsilon": 1.5}, 23, 4),
        (FIXED, {"delta": 1e-9}, 0, 40),
        (replace(FIXED, rounds=200), {}, 0, 200),  # budgets that end in the middle of the run
        (replace(FIXED, rounds=200), {}, 57, 200),
        (AUTO, {}, 0, 4),
        (AUTO, {"epsilon": 1.0, "vary_mechanism": True}, 3, 4),
        (replace(FIXED, accountant="pld", rounds=30), {"accountant": "pld"}, 7, 30),
    ],
)
def test_the_ledger_pays_for_what_was_foreseen(config, own, before, rounds, tmp_path):
    settings = settings_of(config, tmp_path, **own)
    with open_with(settings, tmp_path) as ledger:
        if before:
            spend_before(ledger, settings, before)
        held = ledger.spent(dataset_name(settings))
        profile = ForeseenAccounts(tmp_path).profile(settings, SIZE)
        found = spending_of(profile, config, rounds)
        assert (found.before, profile.spent) == (budget_of(settings, SIZE).epsilon_of(held), held)
        taken, steps = really_spent(ledger, settings, config, rounds)
        after = ledger.spent(dataset_name(settings))
    assert (found.rounds, found.entry.steps if found.entry else 0) == (taken, steps)
    assert total_steps(after) - total_steps(held) == steps
    assert found.epsilon == budget_of(settings, SIZE).epsilon_of(after) <= settings.epsilon
    assert taken == rounds or steps % 10 > 0, "a case takes all rounds, or ends in a short one"


def test_where_nothing_fits_nothing_is_spent_and_the_reason_is_there(tmp_path):
    settings = settings_of(FIXED, tmp_path, epsilon=0.01)
    found = spending_of(ForeseenAccounts(None).profile(settings, SIZE), FIXED, 4)
    assert (found.entry, found.rounds, found.epsilon) == (None, 0, 0.0)
    with open_with(settings, tmp_path) as ledger:
        assert really_spent(ledger, settings, FIXED, 4) == (0, 0)
        spend_before(ledger, settings, 5, noise=7.0)
    richer = replace(settings, epsilon=3.0)
    other = spending_of(ForeseenAccounts(tmp_path).profile(richer, SIZE), FIXED, 4)
    assert (other.entry, other.epsilon) == (None, other.before)
    assert "noise" in other.record.reason


def test_without_privacy_all_rounds_are_taken_and_no_epsilon_holds(tmp_path):
    config = replace(FIXED, privacy="off")
    settings = settings_of(config, tmp_path)
    found = spending_of(ForeseenAccounts(None).profile(settings, SIZE), config, 4)
    assert (found.entry, found.rounds) == (Entry(0.1, 0.0, 40), 4)
    assert found.epsilon == float("inf")


def test_without_a_ledger_nothing_is_spent_and_a_retired_account_is_counted(tmp_path):
    settings = settings_of(FIXED, tmp_path)
    first = ForeseenAccounts(tmp_path).profile(settings, SIZE)  # no ledger is there yet
    assert (first.spent, first.arithmetic, first.retired) == ((), PROVEN, 0)
    assert list(tmp_path.iterdir()) == []
    with open_with(settings, tmp_path) as ledger:
        spend_before(ledger, settings, 23)
        ledger.retire(dataset_name(settings))
    profile = ForeseenAccounts(tmp_path).profile(settings, SIZE)
    assert (profile.spent, profile.retired) == ((), 1)


def test_who_takes_part_by_chance():
    some = replace(FIXED, clients=8, fit_clients=2, rounds=6)
    assert (takes_every_round(FIXED), takes_every_round(some), mean_rounds(some)) == (True, False, 1.5)
    assert not takes_every_round(replace(FIXED, sampling="poisson"))


def test_members_of_a_sum_have_in_common_the_largest_of_what_each_needs(tmp_path):
    config = RunConfig(clients=4, min_clients=4, fit_clients=4, aggregation="secure", noise_multiplier=6.0)
    accounts, settings = ForeseenAccounts(None), settings_of(config, tmp_path)
    profiles = [accounts.profile(settings, size) for size in (640, 128, 256)]
    assert in_common(config, profiles) == config
    auto = replace(config, noise_multiplier="auto")
    settings = settings_of(auto, tmp_path)
    profiles = [accounts.profile(settings, size) for size in (640, 128, 256)]
    each = [in_common(auto, [one]).noise_multiplier for one in profiles]
    assert in_common(auto, profiles).noise_multiplier == max(each) > min(each)
    closed = [replace(one, allow_secure_sum=False) for one in profiles]  # they take no part
    assert in_common(auto, [closed[1], profiles[0]]).noise_multiplier == each[0]
    assert in_common(auto, closed) == auto
    plain = replace(auto, aggregation="mean")
    assert in_common(plain, profiles) == plain


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [8.0, 1.2])
def test_a_simulated_run_spends_what_was_foreseen(epsilon, tmp_path):
    """By what its rounds.jsonl and its ledger say: a first run, and one more on the same ledger."""
    sizes = [len(part) for part in load_parts(FIXED)[1]]
    for number in ("1", "2"):
        config = replace(
            FIXED, rounds=3, noise_multiplier=1.5, epsilon=epsilon, learning_rate=0.5 / int(number)
        )
        accounts = ForeseenAccounts(tmp_path / "ledger")
        settings = [settings_of(config, tmp_path / "ledger", client) for client in range(2)]
        foreseen = [
            spending_of(accounts.profile(one, size), config, config.rounds)
            for one, size in zip(settings, sizes, strict=True)
        ]
        (tmp_path / "run.toml").write_text(tomli_w.dumps(config.to_flat()))
        words = ["run", "--simulate", "--config", "run.toml", "--ledger", "ledger", "--out", number]
        fl_dp(*words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        rounds = json_lines(tmp_path / number / "rounds.jsonl")
        with Ledger.open_existing(ledger_file(tmp_path / "ledger")) as ledger:
            spent = [ledger.spent(dataset_name(one)) for one in settings]
        for client, found in enumerate(foreseen):
            states = [one["clients"][str(client)] for one in rounds]
            assert [one["status"] for one in states].count("trained") == found.rounds
            steps = found.entry.steps if found.entry else 0
            assert total_steps(spent[client]) - total_steps(found.record.before) == steps
            assert found.record.budget.epsilon_of(spent[client]) == found.epsilon <= epsilon
            assert not states or states[-1]["epsilon"] == found.epsilon
