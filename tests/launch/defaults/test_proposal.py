"""A proposal rests on public facts alone, and is refused where no run would come of it."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, DataError, ExitCode
from fl_dp.launch.check import check_run
from fl_dp.launch.defaults.proposal import Proposal, propose, typical
from fl_dp.launch.defaults.rule import noise_in_a_weight
from fl_dp.launch.defaults.words import print_proposal
from fl_dp.launch.request import RunRequest

CONFIG = RunConfig(accountant="rdp")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def proposed(config: RunConfig = CONFIG, **more: object) -> Proposal:
    return propose(RunRequest(config, ()), **more)


@cache
def usual() -> Proposal:
    return proposed()


def test_the_run_spends_its_budget_and_no_more(tmp_path):
    found = usual()
    checked = check_run(RunRequest(found.config, ()), engine="ray")
    assert (checked.exit_code, checked.problems) == (ExitCode.TRAINED, ())
    assert 2.98 < checked.forecast.epsilon <= 3.0
    assert found.run.forecast.epsilon == checked.forecast.epsilon
    assert found.config.rounds * found.config.local_epochs == 40
    assert (found.config.momentum, found.config.optimizer_state) == (0.9, "keep")
    assert list(tmp_path.iterdir()) == []


def test_what_the_config_says_of_chosen_settings_counts_for_nothing():
    other = replace(
        CONFIG,
        rounds=9,
        local_epochs=0.1,
        expected_batch_size=8,
        physical_batch_size=2,
        learning_rate=77.0,
        optimizer_settings="momentum=0.3",
        optimizer_state="reset",
        max_grad_norm=9.0,
        noise_multiplier=50.0,
    )
    assert proposed(other).config == proposed().config


def test_records_of_other_values_have_the_same_plan(tmp_path):
    """Scale, spread and labels are nobody's business: two data sets of one form and size are one."""
    random = np.random.default_rng(0)
    sets = {
        "a": (random.random((400, 7)), random.integers(0, 3, 400)),
        "b": (1e3 * random.standard_normal((400, 7)), np.zeros(400, int)),
        "fewer": (np.zeros((100, 7)), np.zeros(100, int)),
    }
    found = {}
    for name, (x, y) in sets.items():
        test = {"x_test": x[:50].astype(np.float32), "y_test": y[:50]}
        np.savez(
            f"{name}.npz", x_train=x.astype(np.float32), y_train=y, classes=["no", "yes", "perhaps"], **test
        )
        found[name] = proposed(replace(CONFIG, data=f"npz:{name}.npz"))
    assert replace(found["a"].config, data="") == replace(found["b"].config, data="")
    assert found["a"].run.reasons == found["b"].run.reasons
    assert found["fewer"].config.max_grad_norm != found["a"].config.max_grad_norm


def test_where_chance_decides_the_noise_that_counts_is_that_of_a_mean_of_those_who_are_drawn():
    """By hand: R rounds of t steps, in each the mean of m clients with noise sigma / B a step."""
    config = replace(CONFIG, clients=20, min_clients=5, fit_clients=5, epsilon=1.0, partition="iid")
    run = proposed(config).run
    one = run.forecast.clients[0].record.mechanism
    assert one is not None
    steps, drawn = one.steps * run.config.rounds, one.sample_rate * 72
    noise = one.noise_multiplier * math.sqrt(steps / 5) / drawn
    move = noise_in_a_weight(650, images=True) / noise
    assert run.config.learning_rate * run.config.max_grad_norm == pytest.approx(move, rel=0.08)


def test_passes_may_be_limited():
    many, few = usual(), proposed(most_passes=5)
    assert (passes_of(many.config), passes_of(few.config)) == (40.0, 5.0)
    assert "40 passes over a client's 721 records in all rounds: " in many.run.reasons["local_epochs"]
    words = "5 passes over a client's 721 records in all rounds, as many as are allowed"
    assert few.run.reasons["local_epochs"].startswith(words)
    assert passes_of(proposed(most_passes=90).config) == 40.0


def passes_of(config: RunConfig) -> float:
    return config.local_epochs * config.rounds


def test_the_typical_client_by_hand():
    # the client that has the median record
    assert [typical(sizes) for sizes in ([30, 85, 172, 199], [1] * 99 + [1000], [5, 5])] == [172, 1000, 5]


OTHERS = {
    "privacy": "off",
    "optimizer": "adam",
    "server_optimizer": "fedadam",
    "learning_rate_schedule": "cosine",
    "clipping": "automatic",
    "optimizer_settings": "nesterov=true",
    "local_algorithm": "mr-mtl",
    "aggregation": "median",
    "strategy": "mine.py:Mine",
}


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        *(
            ({key: value}, {}, f"{key.replace('_', '-')} = '{value}': the rule")
            for key, value in OTHERS.items()
        ),
        ({"data": "digts"}, {}, r"did you mean digits\?"),
        ({"data": "npz:absent.npz"}, {}, r"absent\.npz"),
        ({"model": "tanh-cnn"}, {}, "tanh-cnn"),
        ({"epsilon": 1e-5}, {}, "epsilon = 1e-05"),
        ({}, {"most_passes": 0}, "passes = 0: expected"),
        ({}, {"most_rounds": 0}, "rounds = 0"),
    ],
)
def test_what_no_run_comes_of_is_refused_by_name(change, more, words):
    with pytest.raises((ConfigError, DataError), match=words):
        proposed(replace(CONFIG, **change), **more)


def test_too_few_records_for_the_budget_are_told_with_the_number(capsys):
    drowned = proposed(replace(CONFIG, epsilon=0.02))
    print_proposal(drowned, print)
    out = capsys.readouterr().out
    share = drowned.run.forecast.noise_share
    assert share > 1
    assert f"the model will hardly learn anything: the total noise is {share:.2g} times" in out


OF_SUMS = replace(CONFIG, clients=10, min_clients=10, fit_clients=10, aggregation="secure", partition="iid")


def test_secure_sums_take_the_steps_of_one_client_with_the_noise_of_one():
    """Ten members: the same bound's noise falls on ten times the records, so the rule may step further."""
    found = proposed(OF_SUMS)
    config, entry = found.config, found.run.forecast.mechanisms[0]
    assert found.notes == ()  # nothing about too few rounds
    assert (config.server_optimizer, config.momentum, config.optimizer_state) == ("fedavgm", 0.0, "reset")
    assert config.rounds == math.ceil(40 * 144 / config.expected_batch_size)
    assert 2.98 < found.run.forecast.epsilon <= 3.0
    drawn = 10 * config.expected_batch_size
    noise = entry.noise_multiplier * math.sqrt(10 / 9) / drawn  # nine shares are enough, ten are added
    move = noise_in_a_weight(650, images=True) / (noise * math.sqrt(config.rounds))
    assert config.learning_rate * config.max_grad_norm == pytest.approx(0.1 * move, rel=0.08)
    few = proposed(OF_SUMS, most_rounds=80).config
    assert (few.rounds, few.expected_batch_size) == (45, 128)  # as many passes, in larger batches
    again = proposed(config)  # a planned file may be planned again
    assert again.config == config


def test_chance_in_secure_sums_needs_more_rounds():
    some = proposed(replace(OF_SUMS, clients=20, fit_clients=5, min_clients=5)).config
    assert some.rounds == 4 * math.ceil(40 * 72 / some.expected_batch_size)
