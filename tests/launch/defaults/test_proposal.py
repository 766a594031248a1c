"""A proposal rests on public facts alone, fits the time, and is refused where no run would come of it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, DataError
from fl_dp.launch import measuring
from fl_dp.launch.check import check_run
from fl_dp.launch.defaults import proposal
from fl_dp.launch.defaults.proposal import Proposal, fewer, propose
from fl_dp.launch.defaults.rule import noise_in_a_weight
from fl_dp.launch.defaults.settings import typical
from fl_dp.launch.defaults.words import print_proposal
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.request import RunRequest

CONFIG = RunConfig(accountant="rdp")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measuring, "SECONDS", 0.02)
    monkeypatch.chdir(tmp_path)


def proposed(config: RunConfig = CONFIG, **more: object) -> Proposal:
    return propose(RunRequest(config, ()), engine="ray", **more)


def test_the_run_spends_its_budget_and_no_more(tmp_path):
    found = proposed()
    checked = check_run(RunRequest(found.config, ()), engine="ray")
    assert (checked.exit_code, checked.problems) == (ExitCode.TRAINED, ())
    assert checked.forecast is not None
    assert 2.98 < checked.forecast.epsilon <= 3.0
    assert found.run.forecast.epsilon == checked.forecast.epsilon
    assert found.config.rounds * found.config.local_epochs == 40
    assert (found.config.momentum, found.config.optimizer_state) == (0.9, "keep")
    assert list(tmp_path.iterdir()) == []


def test_what_the_config_says_of_chosen_settings_counts_for_nothing():
    other = replace(
        CONFIG, rounds=9, local_epochs=0.1, expected_batch_size=8, physical_batch_size=2, learning_rate=77.0,
        momentum=0.3, optimizer_state="reset", max_grad_norm=9.0, noise_multiplier=50.0, participations=2,
    )  # fmt: skip
    assert proposed(other).config == proposed().config


def _file(path: Path, values: np.ndarray, labels: np.ndarray) -> str:
    np.savez(
        path, x_train=values, y_train=labels, x_test=values[:50], y_test=labels[:50],
        classes=np.array(["no", "yes", "perhaps"]),
    )  # fmt: skip
    return f"npz:{path}"


def test_records_of_other_values_have_the_same_plan(tmp_path):
    """Scale, spread and labels are nobody's business: two data sets of one form and size are one."""
    random = np.random.default_rng(0)
    first = _file(tmp_path / "a.npz", random.random((400, 7), dtype=np.float32), random.integers(0, 3, 400))
    second = _file(
        tmp_path / "b.npz", 1e3 * random.standard_normal((400, 7)).astype(np.float32), np.zeros(400, int)
    )
    one, other = proposed(replace(CONFIG, data=first)), proposed(replace(CONFIG, data=second))
    assert replace(one.config, data="") == replace(other.config, data="")
    assert one.run.reasons == other.run.reasons
    fewer_records = _file(tmp_path / "c.npz", np.zeros((100, 7), np.float32), np.zeros(100, int))
    assert proposed(replace(CONFIG, data=fewer_records)).config.learning_rate != one.config.learning_rate


def test_a_round_may_take_as_long_as_it_is_to_take(monkeypatch):
    assert proposed().config.round_timeout == 3600.0
    real = proposal.time_run
    monkeypatch.setattr(proposal, "time_run", lambda *of, **more: replace(real(*of, **more), rounds=20_000.0))
    found = proposed()
    assert found.config.rounds == 4
    assert found.config.round_timeout == found.run.forecast.config.round_timeout == 10_200.0  # 17 times 600 s


def test_a_larger_budget_takes_longer_steps():
    rates = [proposed(replace(CONFIG, epsilon=epsilon)).config.learning_rate for epsilon in (0.5, 1.0, 2.0)]
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.3)
    assert rates[2] == pytest.approx(2 * rates[1], rel=0.3)


def test_where_chance_decides_noise_is_for_the_rounds_that_are_drawn():
    config = replace(CONFIG, clients=20, min_clients=5, fit_clients=5)
    found = proposed(config).config
    assert (found.rounds, found.local_epochs) == (16, 10.0)  # four rounds of each, 40 passes
    assert (found.participations, found.momentum, found.optimizer_state) == ("auto", 0.0, "reset")


def test_where_chance_decides_the_noise_that_counts_is_that_of_a_mean_of_those_who_are_drawn():
    """By hand: R rounds of t steps, in each the mean of m clients with noise sigma / B a step."""
    config = replace(CONFIG, clients=20, min_clients=5, fit_clients=5, epsilon=1.0, partition="iid")
    run = proposed(config).run
    one = run.forecast.clients[0].record.mechanism
    assert one is not None
    steps, drawn = one.steps * run.config.rounds, one.sample_rate * 72
    noise = one.noise_multiplier * math.sqrt(steps / 5) / drawn
    move = noise_in_a_weight(650) / noise
    assert run.config.learning_rate * run.config.max_grad_norm == pytest.approx(move, rel=0.08)


def test_a_limit_of_time_takes_fewer_passes(monkeypatch):
    whole = proposed()
    asked = []

    def time_run(forecast: object, *, simulated: bool, known: object) -> object:
        config = forecast.config
        asked.append(config.local_epochs * config.rounds)
        return replace(whole.timing, rounds=asked[-1] + 4.0)  # a second a pass, and four in any case

    monkeypatch.setattr(proposal, "time_run", time_run)
    assert proposed(seconds=proposal.START + 2 * 44.0).seconds == proposal.START + 2 * 44.0
    found = proposed(seconds=proposal.START + 2 * 16.0)
    passes = found.config.local_epochs * found.config.rounds
    assert 8 <= passes <= 12
    words = f"{passes:g} passes over a client's 721 records in all rounds, as many as the time allows: "
    assert found.run.reasons["local_epochs"].startswith(words)
    assert "40 passes over a client's 721 records in all rounds: " in whole.run.reasons["local_epochs"]
    assert found.seconds <= proposal.START + 2 * 16.0
    with pytest.raises(
        ConfigError, match=r"the time limit, 25 s, is too short: 1 pass over.* takes 30 s on this"
    ):
        proposed(seconds=25.0)
    assert asked[-1] == 1.0
    with pytest.raises(ConfigError, match=r"the time limit, 9\.0 s, is too short"):
        proposed(seconds=9.0)


def test_a_machine_that_gets_slower_is_asked_for_one_pass_at_last(monkeypatch):
    whole, seconds = proposed(), iter([100.0, 100.1, 100.2, 100.3, 100.4, 1.0])
    asked = []

    def time_run(forecast: object, *, simulated: bool, known: object) -> object:
        asked.append(forecast.config)
        return replace(whole.timing, rounds=next(seconds))

    monkeypatch.setattr(proposal, "time_run", time_run)
    found = proposed(seconds=proposal.START + 2 * 99.9)
    assert found.config == asked[-1]
    assert found.config.local_epochs * found.config.rounds == 1.0


def test_fewer_passes_are_whole_and_fewer():
    assert fewer(40.0, 0.5) == 19.0
    assert fewer(3.0, 0.99) == 2.0
    assert fewer(2.0, -3.0) == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"privacy": "off"}, "privacy = 'off': the rule was made for 'on' alone"),
        ({"optimizer": "adam"}, "optimizer = 'adam': the rule"),
        ({"server_optimizer": "fedadam"}, "server-optimizer = 'fedadam': the rule"),
        ({"learning_rate_schedule": "cosine"}, "learning-rate-schedule = 'cosine': the rule"),
        (
            {"adaptive_clipping": "quantile:0.5"},
            "adaptive-clipping = 'quantile:0.5': the rule was made for ''",
        ),
        ({"optimizer_settings": "nesterov=true"}, "optimizer-settings = 'nesterov=true': the rule"),
        ({"local_algorithm": "scaffold"}, "local-algorithm = 'scaffold': the rule was made for 'fedavg'"),
        ({"aggregation": "median"}, "aggregation = 'median': the rule was made for 'mean'"),
        ({"strategy": "mine.py:Mine"}, "strategy = 'mine.py:Mine': the rule was made for ''"),
        ({"data": "digts"}, "did you mean digits?"),
        ({"model": "tanh-cnn"}, "tanh-cnn"),
        ({"epsilon": 1e-5}, "epsilon = 1e-05"),
    ],
)
def test_what_no_run_comes_of_is_refused_by_name(change, words):
    with pytest.raises(ConfigError, match=r".*") as error:
        proposed(replace(CONFIG, **change))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("more", "words"), [({"seconds": 0.0}, "minutes = 0: expected"), ({"most_rounds": 0}, "rounds = 0")]
)
def test_a_limit_that_is_none_is_refused(more, words):
    with pytest.raises(ConfigError) as error:
        proposed(**more)
    assert words in str(error.value)


def test_data_that_are_not_there_are_named():
    with pytest.raises((ConfigError, DataError), match=r"absent\.npz"):
        proposed(replace(CONFIG, data="npz:absent.npz"))


def test_too_few_records_for_the_budget_are_told_with_the_number(capsys):
    drowned = proposed(replace(CONFIG, epsilon=0.02))
    print_proposal(drowned, print, simulated=True)
    out = capsys.readouterr().out
    share = drowned.run.forecast.noise_share
    assert share > 1
    assert f"hardly anything can be learnt: all noise together is {share:.2g} times" in out


def test_the_typical_client_has_the_median_record():
    assert typical([30, 85, 172, 199]) == 172
    assert typical([1] * 99 + [1000]) == 1000
    assert typical([5, 5]) == 5
