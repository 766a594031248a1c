"""What a run will cost is what its clients' ledgers then pay for, to the step; and no ledger is changed."""

import hashlib
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from launch.commands import fl_dp, json_lines

from fl_dp.accounting.alone import compute_epsilon_alone
from fl_dp.accounting.budget import Budget
from fl_dp.accounting.calibration import calibrate_noise
from fl_dp.accounting.ledger.files import ledger_file
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import DataDeclaration
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import BudgetExhaustedError, LedgerError
from fl_dp.federation.client.budgets import budget_of
from fl_dp.federation.client.registration import cut_of, dataset_name, records_name
from fl_dp.federation.server.planning import round_mechanism
from fl_dp.form import Form
from fl_dp.launch.check_words import guarantee_lines
from fl_dp.launch.clients import client_config
from fl_dp.launch.forecast import (
    Forecast,
    ForeseenAccounts,
    SiteMetricsForecast,
    forecast_of,
    forecast_site_metrics,
    in_common,
    mean_rounds,
    most_rounds,
    noise_share_of,
    spending_of,
    takes_every_round,
    usual_rounds,
)
from fl_dp.records import PROVEN, Entry, total_steps
from fl_dp.reporting.console import rounded_up
from fl_dp.tasks.load import task_of
from fl_dp.tasks.records import load_parts
from fl_dp.tasks.score_histogram import Layout
from fl_dp.tasks.score_metrics import estimates


def forecast(config: RunConfig, *sizes: int, ledgers: Path | None = None) -> Forecast:
    return forecast_of(config, sizes, ledgers, {})


def spends(config: RunConfig, *taken: tuple[float, float, int]) -> float:
    """By the accountant, of what stands in a ledger after that."""
    return Budget(config.epsilon, 1e-5, config.accountant).epsilon_of([Entry(*one) for one in taken])


FIXED = RunConfig(rounds=3, noise_multiplier=4.0, accountant="rdp")


def test_with_auto_the_rounds_spend_the_budget():
    found = forecast(RunConfig(accountant="rdp", epsilon=2.0), 640, 640)
    assert 1.9 < found.epsilon <= 2.0
    assert found.resolved.noise_multiplier == found.clients[0].record.mechanism.noise_multiplier
    assert (found.resolved.delta, found.resolved.min_updates) == (1e-5, 2)
    unlike = forecast(RunConfig(accountant="rdp", epsilon=2.0), 640, 320)
    assert unlike.resolved.noise_multiplier == "auto", "each client has its own"


def test_a_budget_that_ends_is_seen_with_its_round():
    """The small client ends first; the run goes on with the other, as its own rules say."""
    config = RunConfig(rounds=20, noise_multiplier=1.0, accountant="rdp", epsilon=3.0)
    found = forecast(config, 6400, 320)
    large, small = found.clients
    assert small.rounds < large.rounds == 20
    assert [one.name for one in found.running_out] == ["1"]
    assert small.epsilon <= 3.0
    assert found.ends is None, "one client is enough where budgets have ended"
    both = forecast(replace(config, min_updates=2), 6400, 320)
    assert both.ends == small.rounds + 1
    alone = forecast(config, 320, 320)
    assert alone.ends == alone.clients[0].rounds + 1


def test_of_clients_that_are_drawn_the_mean_is_said():
    config = RunConfig(
        clients=4, min_clients=2, fit_clients=2, rounds=8, noise_multiplier=1.0, accountant="rdp", epsilon=5.5
    )
    found = forecast(config, 640, 640, 640, 640)
    assert (found.sampled, mean_rounds(config)) == (True, 4.0)
    left = found.clients[0].rounds
    assert 4 <= left < 8
    assert found.ends is None, "there are enough others"
    poor = forecast(replace(config, epsilon=2.5), 640, 640, 640, 640)
    assert poor.ends == 4 * poor.clients[0].rounds // 2 + 1 <= 8


def digest(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_what_a_lasting_ledger_holds_counts_and_the_ledger_stays_as_it_is(tmp_path):
    own = client_config(FIXED, 0, tmp_path)
    with Ledger.open(Path(own.ledger)) as ledger:
        ledger.register_all([DataDeclaration(dataset_name(own), "f", 640)])
        ledger.reserve(dataset_name(own), "run", 1, Entry(0.1, 4.0, 10), Budget(3.0, 1e-5, "rdp"))
    before = digest(tmp_path)
    found = forecast(FIXED, 640, 320, ledgers=tmp_path)
    assert digest(tmp_path) == before
    first, second = found.clients
    assert first.before == spends(FIXED, (0.1, 4.0, 10))
    assert first.epsilon == spends(FIXED, (0.1, 4.0, 40))
    assert second.before == 0.0
    grown = forecast(FIXED, 768, 320, ledgers=tmp_path).clients[0]
    assert (grown.record.profile.public_size, grown.epsilon) == (640, first.epsilon), "the first number stays"
    changed = forecast(replace(FIXED, noise_multiplier=5.0), 640, 320, ledgers=tmp_path)
    assert "noise" in changed.clients[0].record.reason, "the data keep to their first mechanism"
    assert changed.clients[0].epsilon == changed.clients[0].before


def test_a_ledger_that_is_not_there_is_not_made_and_one_that_cannot_be_read_is_refused(tmp_path):
    assert forecast(FIXED, 640, 320, ledgers=tmp_path / "new").clients[0].before == 0.0
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "ledger.sqlite").write_text("no ledger")
    with pytest.raises(LedgerError, match=r"ledger\.sqlite"):
        forecast(FIXED, 640, 320, ledgers=tmp_path)


def test_of_many_three_are_shown():
    config = RunConfig(clients=5, min_clients=5, fit_clients=5, noise_multiplier=4.0, accountant="rdp")
    shown = forecast(config, 500, 100, 400, 200, 300).spread()
    assert [(words, one.name) for words, one in shown] == [("largest", "1"), ("median", "4"), ("least", "0")]


OF_SUMS = RunConfig(clients=4, min_clients=4, fit_clients=4, rounds=3, aggregation="secure", epsilon=50.0)


def test_members_of_a_sum_have_one_noise():
    found = forecast(replace(OF_SUMS, epsilon=3.0), 128, 640, 640, 640)
    noises = {one.entry.noise_multiplier for one in found.clients if one.entry}
    assert len(noises) == 1
    assert found.clients[0].epsilon > 2.99 > found.clients[1].epsilon


def test_noise_is_held_against_all_that_the_records_can_say():
    one = Entry(0.1, 4.0, 25)
    alone = noise_share_of([one], [640], 100)
    assert alone == pytest.approx(4.0 * 10 * 5 / (64 * 25))
    # noise of independent clients does not add up as gradients do
    assert noise_share_of([one, one], [640, 640], 100) == pytest.approx(alone / 2**0.5)
    assert noise_share_of([None, Entry(0.1, 0.0, 25)], [640, 640], 100) == 0


def test_if_sums_fail_each_clients_own_share_is_its_only_noise():
    found = forecast(replace(OF_SUMS, noise_multiplier=6.0), 400, 400, 400, 800)
    assert forecast(FIXED, 640, 320).epsilon_alone is None
    entries = [one.entry for one in found.clients]
    assert all(entry.shares == 3 for entry in entries)
    each = [compute_epsilon_alone([entry], 1e-5, "pld") for entry in entries]
    assert found.epsilon_alone == max(each) > found.epsilon
    before = (Entry(0.1, 4.0, 50),)
    assert found.clients[0].if_sums_fail(before) == compute_epsilon_alone([*before, entries[0]], 1e-5, "pld")
    assert f"(alone {rounded_up(found.epsilon_alone)}) of" in next(guarantee_lines(found))


EVALUATED = RunConfig(
    clients=4, rounds=4, site_metrics=True, test=0.2, evaluate_epsilon=8.0, delta=1e-5, accountant="rdp"
)


def of_sites(**changes):
    config = replace(EVALUATED, **changes)
    task_of(config).form = Form((3,), 2)
    return forecast_site_metrics(config, (80, 80, 80, 160))


def test_the_noise_is_that_of_the_run():
    found = of_sites()
    assert found.noise == calibrate_noise(1.0, 1, 8.0, 1e-5, accountant="rdp")
    assert found.deviation == pytest.approx(math.sqrt(4) * found.noise, rel=0.02)
    assert (found.records, found.sites) == (100, 4)
    assert 7.9 < found.epsilon <= 8.0
    assert "an evaluation at 4 sites costs them epsilon 8.00" in " ".join(found.lines())
    own = of_sites(test="own")
    assert own.records == 0
    assert len(list(own.lines())) == 4  # of three usual numbers
    assert of_sites(site_metrics=False) is None


def test_of_persons_it_is_said_that_each_counts_once():
    """Each may have more records: then more is known."""
    persons = of_sites(unit="person:who", records_per_person=4)
    assert persons.records == 100
    assert "with about 100 test records, one of each person at all" in " ".join(persons.lines())
    assert "with about 100 test records at all" in " ".join(of_sites().lines())


@pytest.mark.parametrize("layout", [Layout(2), Layout(10)])
@pytest.mark.parametrize("right", [0.5, 0.9])
@pytest.mark.parametrize("deviation", [0.0, 10.0])
def test_accuracy_is_known_at_least_as_well(layout, right, deviation):
    """Beside the interval that a run would report, of 2,000 records."""
    records = 2000
    counts = np.zeros((8, 2))
    if layout.binary:  # right answers: no below the middle, yes above
        counts[:4, 0] = counts[4:, 1] = right
        counts[:4, 1] = counts[4:, 0] = 1 - right
    else:
        counts[:, 0], counts[:, 1] = 1 - right, right
    cells = np.zeros(layout.size)
    cells[:16] = (counts * records / 8).reshape(-1)
    told = estimates(layout, cells, deviation or 1e-9)["accuracy"]
    width = (told.high - told.low) / 2
    forecast = SiteMetricsForecast(1.0, 1.0, 1e-5, deviation, 1, records)
    assert 0.55 * forecast.half_width(records) < width < 1.06 * forecast.half_width(records)
    assert forecast.half_width(records, noisy=False) <= forecast.half_width(records)


SIZE = 640  # records: 10 steps a round
FOUR = RunConfig(rounds=4, noise_multiplier=2.0, accountant="rdp", epsilon=3.0)
AUTO = replace(FOUR, noise_multiplier="auto")


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
        (FOUR, {}, 0, 4),
        (FOUR, {}, 23, 4),
        (FOUR, {"epsilon": 0.9}, 0, 4),  # the site's own limit is lower than the run's
        (FOUR, {"epsilon": 1.5}, 23, 4),
        (FOUR, {"delta": 1e-9}, 0, 40),
        (replace(FOUR, rounds=200), {}, 0, 200),  # budgets that end in the middle of the run
        (replace(FOUR, rounds=200), {}, 57, 200),
        (AUTO, {}, 0, 4),
        (AUTO, {"epsilon": 1.0, "vary_mechanism": True}, 3, 4),
        (replace(FOUR, accountant="pld", rounds=30), {"accountant": "pld"}, 7, 30),
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
    settings = settings_of(FOUR, tmp_path, epsilon=0.01)
    found = spending_of(ForeseenAccounts(None).profile(settings, SIZE), FOUR, 4)
    assert (found.entry, found.rounds, found.epsilon) == (None, 0, 0.0)
    with open_with(settings, tmp_path) as ledger:
        assert really_spent(ledger, settings, FOUR, 4) == (0, 0)
        spend_before(ledger, settings, 5, noise=7.0)
    richer = replace(settings, epsilon=3.0)
    other = spending_of(ForeseenAccounts(tmp_path).profile(richer, SIZE), FOUR, 4)
    assert (other.entry, other.epsilon) == (None, other.before)
    assert "noise" in other.record.reason


def test_without_privacy_all_rounds_are_taken_and_no_epsilon_holds(tmp_path):
    config = replace(FOUR, privacy="off")
    settings = settings_of(config, tmp_path)
    found = spending_of(ForeseenAccounts(None).profile(settings, SIZE), config, 4)
    assert (found.entry, found.rounds) == (Entry(0.1, 0.0, 40), 4)
    assert found.epsilon == float("inf")


def test_without_a_ledger_nothing_is_spent_and_a_retired_account_is_counted(tmp_path):
    settings = settings_of(FOUR, tmp_path)
    first = ForeseenAccounts(tmp_path).profile(settings, SIZE)  # no ledger is there yet
    assert (first.spent, first.arithmetic, first.retired) == ((), PROVEN, 0)
    with open_with(settings, tmp_path) as ledger:
        spend_before(ledger, settings, 23)
        ledger.retire(dataset_name(settings))
    profile = ForeseenAccounts(tmp_path).profile(settings, SIZE)
    assert (profile.spent, profile.retired) == ((), 1)


def test_who_takes_part_by_chance():
    some = replace(FOUR, clients=8, fit_clients=2, rounds=6)
    assert (takes_every_round(FOUR), takes_every_round(some), mean_rounds(some)) == (True, False, 1.5)
    assert not takes_every_round(replace(FOUR, sampling="poisson"))


TEN_OF_100 = RunConfig(clients=100, fit_clients=10, min_clients=10, rounds=20, epsilon=1.0, accountant="rdp")


def test_in_turns_rounds_are_known_and_spend_the_budget():
    turns = replace(TEN_OF_100, sampling="turns")
    found = forecast(turns, *[640] * 100)
    assert {one.rounds for one in found.clients} == {2}
    assert [rounds for rounds, _ in found.usual] == [2, 2, 2]
    assert 0.99 < found.epsilon <= 1.0
    assert (found.ends, found.running_out) == (None, ())
    some = replace(turns, rounds=23, noise_multiplier=9.0)  # 30 of them train once more
    assert (usual_rounds(some), most_rounds(some)) == ((2, 2, 3), 3)
    assert usual_rounds(replace(some, rounds=27)) == (2, 3, 3)


def test_where_chance_chooses_the_median_client_leaves_a_third_and_a_line_says_what_uses_it():
    found = forecast(TEN_OF_100, *[640] * 100)
    assert {one.rounds for one in found.clients} == {4}
    assert (most_rounds(TEN_OF_100), found.running_out) == (4, ()), "no budget ends before the plan"
    assert most_rounds(replace(TEN_OF_100, noise_multiplier=99.0)) == 20
    assert [rounds for rounds, _ in found.usual] == [0, 2, 4]
    assert found.usual[1][1] < 0.75 < found.usual[2][1] <= 1.0
    lines = " ".join(guarantee_lines(found))
    assert "nine of ten clients train in 0 to 4 of 20 rounds" in lines
    assert 'sampling = "turns", or participations = 2' in lines
    assert "note" not in " ".join(
        guarantee_lines(forecast(replace(TEN_OF_100, sampling="turns"), *[640] * 100))
    )
    given = " ".join(guarantee_lines(forecast(replace(TEN_OF_100, noise_multiplier=99.0), *[640] * 100)))
    assert 'noise-multiplier = "auto", or more rounds' in given


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
    sizes = [len(part) for part in load_parts(FOUR)[1]]
    for number in ("1", "2"):
        config = replace(
            FOUR, rounds=3, noise_multiplier=1.5, epsilon=epsilon, learning_rate=0.5 / int(number)
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
