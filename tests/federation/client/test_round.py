"""A client's round, written once: paid for first, protected always, and nothing leaves but the update."""

import dataclasses
import logging
import math

import numpy as np
import pytest
import torch
from flwr.app import RecordDict
from torch import nn

from fl_dp.accounting.budget import Budget
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.audit.one_run import GivenTask
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.payment import NOT_FINITE, Outcome, attempt, pay, settle
from fl_dp.federation.client.round import ClientRounds, expected_weights, play, update_of
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.records import Entry, Refusal, RoundPlan
from fl_dp.training import private, rehearsing

PLAN = RoundPlan(
    run="run",
    server_round=1,
    model="linear",
    steps=4,
    expected_batch_size=20,
    learning_rate=0.5,
    momentum=0.0,
    noise_multiplier=1.0,
    max_grad_norm=1.0,
)
BUDGET = Budget(epsilon=8.0, delta=1e-5, accountant="rdp")


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (100,), generator=generator)
    x = torch.randn(100, 5, generator=generator) + 2 * nn.functional.one_hot(y, 5)
    return TensorData(x, y, ("a", "b", "c"))


def _linear():
    torch.manual_seed(3)
    return nn.Linear(5, 3)


class Site:
    """One client with a ledger; plays its rounds from the message to the answer."""

    def __init__(self, folder, **settings):
        self.ledger = Ledger.open(folder / "ledger.sqlite")
        self.rounds = ClientRounds(self.ledger)
        self.settings = ClientConfig(
            client="hospital",
            ledger=str(folder / "ledger.sqlite"),
            data_name="data",
            public_size=100,
            vary_mechanism=True,
            epsilon=8.0,
            delta=1e-5,
            accountant="rdp",
            physical_batch_size=8,
            memory_mib=64,
            device="cpu",
            **settings,
        )

    def client(self, data, **changes):
        (client,) = self.rounds.register([(dataclasses.replace(self.settings, **changes), data)])
        return client

    def train(self, data, plan=PLAN, model=None, **changes):
        model = model or _linear()
        client = self.client(data, **changes)
        training = OwnTraining(client.settings, data, GivenTask(model, TaskSettings()))
        return play(self.rounds, client, plan_to_content(plan, encode(state_arrays(model))), training)

    def spent(self):
        return self.ledger.spent("data")


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    with site.ledger:
        yield site


def test_a_round_ends_where_the_budget_does_and_the_next_is_declined(site, data, monkeypatch):
    taken, step = [], private.PrivateTrainer.step
    monkeypatch.setattr(private.PrivateTrainer, "step", lambda *given: (taken.append(1), step(*given)))
    budget = dataclasses.replace(BUDGET, epsilon=2.9)
    update = site.train(data, epsilon=2.9)
    assert 1 <= update.steps == len(taken) < PLAN.steps
    assert update.epsilon <= budget.epsilon
    one_more = (*update.spent, Entry(0.2, 1.0, 1))
    assert budget.epsilon_of(one_more) > budget.epsilon
    refusal = site.train(data, dataclasses.replace(PLAN, server_round=2), epsilon=2.9)
    assert (refusal.status, refusal.budget_exhausted) == ("declined", True)
    assert site.spent() == update.spent


def test_an_empty_draw_is_still_a_noised_step(site, data):
    plan = dataclasses.replace(PLAN, expected_batch_size=1, steps=1)
    update = site.train(data, plan, public_size=10**12)  # draws nobody
    start = _linear().weight.detach().numpy()
    moved = (update.arrays["weight"] - start) / plan.learning_rate
    assert 0.3 < moved.std() < 2.0  # noise of deviation 1 * C / 1
    assert update.steps == 1


@pytest.mark.parametrize("physical_batch_size", [1, 3, 1000])
def test_noise_is_added_once_a_logical_batch_however_it_is_cut(site, data, physical_batch_size):
    """With C tiny the update is nothing but noise, whose size must not depend on the cut."""
    plan = dataclasses.replace(
        PLAN,
        server_round=physical_batch_size,
        steps=1,
        learning_rate=1.0,
        expected_batch_size=50,
        max_grad_norm=1e-6,
        noise_multiplier=1e4,
    )
    model = nn.Linear(5, 200)
    before = model.weight.detach().numpy().copy()
    wide = TensorData(data.x, data.y, tuple(map(str, range(200))))
    update = site.train(wide, plan, model=model, physical_batch_size=physical_batch_size)
    deviation = (update.arrays["weight"] - before).std()
    assert abs(deviation / (1e4 * 1e-6 / 50) - 1) < 5 / math.sqrt(2 * before.size)


def test_the_physical_batch_is_chosen_for_a_memory_from_shapes_alone(tmp_path, data, monkeypatch):
    sizes = []

    def step(self, data, sample_rate, physical_batch_size):
        sizes.append(physical_batch_size)

    monkeypatch.setattr(private.PrivateTrainer, "step", step)
    # else by how long passes take, which is not the same twice
    monkeypatch.setattr(rehearsing, "best_rows", lambda seconds, expected, at_most, most: at_most)
    other = TensorData(data.x[:1] * 1e30, data.y[:1], data.classes)
    plan = dataclasses.replace(PLAN, steps=1, expected_batch_size=50)
    for name, memory_mib, records in (("one", 2, data), ("other", 2, other), ("large", 6, data)):
        model = nn.Sequential(nn.Linear(5, 5000), nn.Tanh(), nn.Linear(5000, 3))
        (tmp_path / name).mkdir()
        site = Site(tmp_path / name)
        site.train(
            records, plan, model=model, public_size=100, physical_batch_size="auto", memory_mib=memory_mib
        )
    assert 1 <= sizes[0] == sizes[1] < sizes[2] <= 2 * 50


def test_a_memory_that_no_example_fits_costs_nothing(site, data):
    model = nn.Linear(5, 100_000)
    wide = TensorData(data.x, data.y, tuple(map(str, range(100_000))))
    with pytest.raises(ConfigError, match="Not even one example fits in 1 MiB"):
        site.train(wide, model=model, physical_batch_size="auto", memory_mib=1)
    assert site.spent() == ()


class ByHand:
    """A training that is handed in, and notes when it is called."""

    def __init__(self, site, result=None, error=None):
        self.site, self.result, self.error = site, result or {"w": np.ones(2)}, error
        self.paid_when_trained = None

    def prepare(self, plan, content):
        assert self.site.spent() == ()

    def train(self, paid):
        self.paid_when_trained = self.site.spent()
        if self.error:
            raise self.error
        return None if self.result == "not finite" else self.result


def _played(site, data, training, plan=PLAN):
    content = plan_to_content(plan, encode({}))
    return play(site.rounds, site.client(data), content, training)


def test_training_given_by_the_caller_follows_the_payment(site, data):
    training = ByHand(site)
    update = _played(site, data, training)
    assert training.paid_when_trained == (Entry(0.2, 1.0, 4),)
    assert update.arrays == training.result


@pytest.mark.parametrize(
    ("result", "error", "reason"),
    [
        ("not finite", None, NOT_FINITE),
        (None, ValueError("patient 17"), "an unexpected error; its own log says which"),
        (None, MemoryError(), "an unexpected error; its own log says which"),
    ],
)
def test_a_failed_round_stays_paid_and_reveals_nothing(site, data, caplog, result, error, reason):
    assert _played(site, data, ByHand(site, result, error)) == Refusal("failed", reason)
    assert site.spent() == (Entry(0.2, 1.0, 4),)
    assert ("patient 17" in caplog.text) == isinstance(error, ValueError)  # the client's own log


def test_a_refusal_is_logged_once(site, data, caplog):
    client = site.client(data, epsilon=1e-6)
    wrong = plan_to_content(dataclasses.replace(PLAN, momentum=2.0), encode({}))
    unread = RecordDict()
    _, refusals = site.rounds.accept([("a", client, wrong), ("b", client, wrong), ("c", client, unread)])
    assert [refusals[key].status for key in "abc"] == ["declined", "declined", "failed"]
    assert "without the record 'plan'" in refusals["c"].reason
    pay(site.ledger, site.rounds.accept([("d", client, plan_to_content(PLAN, encode({})))])[0])
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first.startswith("declined by 2 clients: the round asks for momentum 2")
    assert second.startswith("failed: message without")
    assert third.startswith("declined: Not one more step fits")


def test_training_without_protection_is_logged_once_a_round(site, data, caplog):
    client = site.client(data, allow_unprotected=True)
    plan = dataclasses.replace(PLAN, private=False, noise_multiplier=0.0)
    content = plan_to_content(plan, encode({}))
    with caplog.at_level(logging.WARNING):
        accepted, _ = site.rounds.accept([("a", client, content), ("b", client, content)])
    assert len(accepted) == 2
    assert [record.getMessage() for record in caplog.records] == ["NOT PRIVATE: run run, round 1"]
    caplog.clear()
    site.rounds.accept([("a", client, plan_to_content(PLAN, encode({})))])
    assert not caplog.records


def test_failed_rounds_are_not_committed_and_the_others_are(site, data):
    client = site.client(data)
    paid = []
    for server_round in (1, 2):
        content = plan_to_content(dataclasses.replace(PLAN, server_round=server_round), encode({}))
        accepted, _ = site.rounds.accept([(str(server_round), client, content)])
        paid += pay(site.ledger, accepted)[0]
    done = [(paid[0], Outcome({"w": np.ones(2)})), (paid[1], Outcome(problem="no"))]
    answers = settle(site.ledger, done, update_of)
    assert answers["2"] == Refusal("failed", "no")
    assert answers["1"].steps == 4
    assert answers["1"].spent == (Entry(0.2, 1.0, 8),)  # both are paid for
    (account,) = site.ledger.accounts()
    assert [one.committed for one in account.rounds] == [True, False]


def test_an_attempt_lets_only_fatal_errors_pass():
    def fail():
        raise KeyError("the GPU is lost")

    with pytest.raises(KeyError):
        attempt(fail, fatal=(KeyError,))
    assert attempt(fail, fatal=(ValueError,)).problem == "an unexpected error; its own log says which"
    assert attempt(dict) == Outcome({})


def test_the_clients_files_lie_beside_its_ledger(site, data, tmp_path, monkeypatch):
    """They do not lie in the folder that the process happens to run in."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    site.train(data)
    assert not list(elsewhere.iterdir())


def test_complex_weights_beyond_a_million_are_declined_too():
    arrays = {"w": np.array([0.5 + 2e6j], np.complex64)}
    content = RecordDict({"arrays": encode(arrays)})
    with pytest.raises(DeclinedError, match=r"array 'w' holds values beyond 1e\+06"):
        expected_weights(content, "linear", specs(arrays))
