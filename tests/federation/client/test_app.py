"""The client's two messages, called as Flower calls them, on real data, ledger and training."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.errors import ModelError
from fl_dp.federation.client.app import app
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content, reply_from_content
from fl_dp.form import Form
from fl_dp.models.build import build_model
from fl_dp.records import Entry, Refusal, RoundPlan
from fl_dp.tasks import records
from fl_dp.training.trainer import trainable_arrays

PLAN = RoundPlan("run-1", 1, "linear", 3, 64, 0.5, 0.0, 1.5, 1.0)


@pytest.fixture
def model():
    return build_model("linear", Form((1, 8, 8), 10), seed=1)


@pytest.fixture
def settings(tmp_path):
    """Writes the client's file; returns its node config."""

    def write(**changes):
        flat = {
            "client": "hospital", "ledger": str(tmp_path / "ledger.sqlite"), "epsilon": 3.0,
            "partition-id": 0, "num-partitions": 2, "min-noise-multiplier": 1.0, "max-grad-norm": 1.0,
            "accountant": "rdp", "device": "cpu", **changes,
        }  # fmt: skip
        path = tmp_path / "client.toml"
        path.write_text("".join(f"{k} = {v!r}\n" for k, v in flat.items()))
        return {"client-config": str(path)}

    return write


def call(kind, content, node_config):
    message = Message(content, 11, kind)
    return app(message, Context(1, 11, node_config, RecordDict(), {})).content


def register(node_config):
    return profile_from_content(call("query", RecordDict(), node_config))


def train(plan, model, node_config, arrays=None):
    content = plan_to_content(plan, encode(arrays or state_arrays(model)))
    return reply_from_content(call("train", content, node_config), specs(trainable_arrays(model)))


def test_registration_tells_the_public_numbers(settings):
    profile = register(settings())
    assert (profile.client, profile.epsilon, profile.delta) == ("hospital", 3.0, 1e-5)
    assert profile.spent == ()
    assert 600 < profile.public_size < 800
    assert (
        register(settings(**{"public-size": 5})).public_size == profile.public_size
    )  # the ledger's, for good


def test_registration_tells_that_the_ledger_was_retired(settings, model):
    node_config = settings()
    train(PLAN, model, node_config)
    assert register(node_config).retired == 0
    with Ledger.open(Path(ClientConfig.from_toml(Path(node_config["client-config"])).ledger)) as ledger:
        ledger.retire("digits, part 0/2 (iid, seed 0)")
    profile = register(node_config)
    assert (profile.retired, profile.spent) == (1, ())


def test_a_round_is_trained_paid_for_and_reported(settings, model):
    node_config = settings()
    size = register(node_config).public_size
    update, problem = train(PLAN, model, node_config)
    expected = (Entry(64 / size, 1.5, 3),)
    assert problem == ""
    assert (update.spent, update.steps, update.delta) == (expected, 3, 1e-5)
    assert update.epsilon == compute_epsilon(expected, 1e-5, "rdp")
    assert register(node_config).spent == expected
    before = trainable_arrays(model)
    assert all(not np.array_equal(update.arrays[name], before[name]) for name in before)


def test_a_round_that_asks_too_much_is_declined_and_costs_nothing(settings, model):
    node_config = settings()
    refusal, _ = train(replace(PLAN, noise_multiplier=0.5), model, node_config)
    assert refusal.status == "declined"
    assert "asks for noise multiplier 0.5, this client's least is 1" in refusal.reason
    assert register(node_config).spent == ()


def test_a_spent_budget_is_declined_recognisably(settings, model):
    refusal, _ = train(PLAN, model, settings(epsilon=1e-6))
    assert (refusal.status, refusal.budget_exhausted) == ("declined", True)


def test_the_budget_holds_over_rounds_and_the_last_is_shortened(settings, model):
    node_config = settings(epsilon=2.0)
    steps = []
    for server_round in range(1, 50):
        answer, _ = train(replace(PLAN, server_round=server_round, steps=4), model, node_config)
        if isinstance(answer, Refusal):
            break
        assert answer.epsilon <= 2.0
        steps.append(answer.steps)
    assert answer.budget_exhausted
    assert set(steps[:-1]) == {4}
    assert register(node_config).spent[0].steps == sum(steps)


def test_the_servers_settings_never_reach_the_client(settings, model):
    content = plan_to_content(PLAN, encode(state_arrays(model)))
    content["plan"] = ConfigRecord({**asdict(PLAN), "epsilon": 100.0})
    refusal = profile_from_content(call("train", content, settings()))
    assert refusal.status == "failed"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a missing array", lambda arrays: arrays.popitem()),
        ("a wrong shape", lambda arrays: arrays.update({"1.bias": np.zeros(9, np.float32)})),
        ("infinity", lambda arrays: arrays.update({"1.bias": np.full(10, np.inf, np.float32)})),
    ],
)
def test_weights_that_are_not_the_models_are_declined(settings, model, name, change):
    arrays = state_arrays(model)
    change(arrays)
    node_config = settings()
    refusal, _ = train(PLAN, model, node_config, arrays)
    assert refusal.status == "declined"
    assert refusal.reason.startswith("the weights received for model linear: array")
    assert register(node_config).spent == ()


def test_an_unknown_model_is_a_failure_in_words(settings, model):
    refusal, _ = train(replace(PLAN, model="gpt-9"), model, settings(model="gpt-9"))
    assert (refusal.status, refusal.reason.startswith("model = 'gpt-9'")) == ("failed", True)


def test_no_settings_is_a_failure_in_words(monkeypatch):
    monkeypatch.delenv("FL_DP_CLIENT_CONFIG", raising=False)
    assert register({}) == Refusal("failed", "its own settings cannot be used; its own log says why")


def test_another_librarys_error_text_stays_at_home(settings, model, monkeypatch, caplog):
    def poisoned(config):
        raise ValueError("could not convert 'Mrs Smith, HIV positive' to float")

    monkeypatch.setattr(records, "load_part", poisoned)
    for refusal in (register(settings()), train(PLAN, model, settings())[0]):
        assert refusal == Refusal("failed", "an unexpected error; its own log says which")
    assert "Mrs Smith" in caplog.text  # the client's own log has the traceback


def test_words_of_our_own_are_told(settings, monkeypatch):
    def broken(config):
        raise ModelError("the model cannot be protected")

    monkeypatch.setattr(records, "load_part", broken)
    assert register(settings()) == Refusal("failed", "the model cannot be protected")
