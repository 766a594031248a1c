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
from fl_dp.audit.given_task import GivenTask
from fl_dp.config.client import ClientConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, LedgerError, ProbeError
from fl_dp.federation.client.attempt import NOT_FINITE, Trained, attempt
from fl_dp.federation.client.own_training import OwnTraining
from fl_dp.federation.client.round import ClientRounds, play, refuse
from fl_dp.federation.wire.arrays import encode, state_arrays
from fl_dp.federation.wire.messages import plan_to_content
from fl_dp.records import NUMERICS, Entry, Refusal, RoundPlan
from fl_dp.training import private, rehearsing

PLAN = RoundPlan(
    run="run", server_round=1, model="linear", steps=4, expected_batch_size=20, learning_rate=0.5,
    momentum=0.0, noise_multiplier=1.0, max_grad_norm=1.0,
)  # fmt: skip
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
    """One client with a ledger, whose rounds are played from the message to the answer."""

    def __init__(self, folder, **settings):
        self.ledger = Ledger.open(folder / "ledger.sqlite")
        self.rounds = ClientRounds(self.ledger)
        self.settings = ClientConfig(
            client="hospital", ledger=str(folder / "ledger.sqlite"), data_name="data", vary_mechanism=True,
            epsilon=8.0, delta=1e-5, accountant="rdp", physical_batch_size=8, memory_mib=64, device="cpu",
            **settings,
        )  # fmt: skip

    def client(self, data, **changes):
        (client,) = self.rounds.register([(dataclasses.replace(self.settings, **changes), data)])
        return client

    def train(self, data, plan=PLAN, model=None, **changes):
        model = model or _linear()
        client = self.client(data, **changes)
        content = plan_to_content(plan, encode(state_arrays(model)))
        return play(
            self.rounds,
            client,
            content,
            OwnTraining(client.settings, data, GivenTask(model, TaskSettings(loss=plan.loss))),
        )

    def spent(self):
        return self.ledger.spent("data")


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    with site.ledger:
        yield site


def test_takes_the_planned_steps_and_pays_for_them(site, data):
    before = {name: p.detach().numpy().copy() for name, p in _linear().named_parameters()}
    update = site.train(data)
    assert update.steps == 4
    assert update.spent == site.spent() == (Entry(0.2, 1.0, 4),)
    assert update.epsilon == BUDGET.epsilon_of(update.spent) <= BUDGET.epsilon
    assert update.arrays.keys() == before.keys()
    assert all(not np.array_equal(update.arrays[name], before[name]) for name in before)


def test_a_round_ends_where_the_budget_does_and_the_next_is_declined(site, data):
    budget = dataclasses.replace(BUDGET, epsilon=2.9)
    update = site.train(data, epsilon=2.9)
    assert 1 <= update.steps < PLAN.steps
    assert update.epsilon <= budget.epsilon
    one_more = (*update.spent, Entry(0.2, 1.0, 1))
    assert budget.epsilon_of(one_more) > budget.epsilon
    refusal = site.train(data, dataclasses.replace(PLAN, server_round=2), epsilon=2.9)
    assert (refusal.status, refusal.budget_exhausted) == ("declined", True)
    assert site.spent() == update.spent


def test_a_model_that_cannot_be_protected_costs_nothing(site, data):
    model = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, affine=False))
    with pytest.raises(ProbeError):
        site.train(data, model=model)
    assert site.spent() == ()


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
        PLAN, server_round=physical_batch_size, steps=1, learning_rate=1.0, expected_batch_size=50,
        max_grad_norm=1e-6, noise_multiplier=1e4,
    )  # fmt: skip
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
    monkeypatch.setattr(rehearsing, "best_rows", lambda seconds, expected, at_most: at_most)
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
    model = nn.Linear(5, 200_000)
    wide = TensorData(data.x, data.y, tuple(map(str, range(200_000))))
    with pytest.raises(ConfigError, match="Not even one example fits 1 MiB"):
        site.train(wide, model=model, physical_batch_size="auto", memory_mib=1)
    assert site.spent() == ()


def test_training_learns(site, data):
    plan = dataclasses.replace(PLAN, steps=40, expected_batch_size=50, noise_multiplier=0.5)
    model = _linear()
    site.train(data, plan, model=model, epsilon=1000.0)
    accuracy = (model(data.x).argmax(1) == data.y).float().mean()
    assert accuracy > 0.85


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


def test_what_is_handed_in_trains_after_the_payment(site, data):
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
def test_what_fails_stays_paid_for_and_says_nothing_of_the_data(site, data, caplog, result, error, reason):
    assert _played(site, data, ByHand(site, result, error)) == Refusal("failed", reason)
    assert site.spent() == (Entry(0.2, 1.0, 4),)
    assert ("patient 17" in caplog.text) == isinstance(error, ValueError)  # the client's own log


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss": "hinge"}, "asks for loss 'hinge', this client's own settings have 'cross-entropy'"),
        ({"model": "tanh-cnn"}, "asks for model 'tanh-cnn', this client's own settings have 'linear'"),
        ({"task": "0123abcd"}, "asks for task '0123abcd', this client's own settings have none of its own"),
        (
            {"numerics": NUMERICS + 1},
            f"numerics {NUMERICS + 1}, this client's fl_dp has {NUMERICS}",
        ),
        ({"numerics": NUMERICS - 1}, "Install one version of fl_dp at all sites"),
        ({"max_grad_norm": 1e13}, "clipping bound"),
    ],
)
def test_another_computation_is_declined_and_costs_nothing(site, data, changes, reason):
    refusal = _played(site, data, ByHand(site), dataclasses.replace(PLAN, **changes))
    assert refusal.status == "declined"
    assert reason in refusal.reason
    assert site.spent() == ()


def test_what_is_refused_stands_once_in_the_clients_log(site, data, caplog):
    client = site.client(data, epsilon=1e-6)
    wrong = plan_to_content(dataclasses.replace(PLAN, momentum=2.0), encode({}))
    site.rounds.accept([("a", client, wrong), ("b", client, wrong)])
    site.rounds.pay(site.rounds.accept([("c", client, plan_to_content(PLAN, encode({})))])[0])
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("declined by 2 clients: the round asks for momentum 2")
    assert second.startswith("declined: Not one more step fits")


def test_a_message_that_cannot_be_read_is_refused(site, data):
    accepted, refusals = site.rounds.accept([("key", site.client(data), RecordDict())])
    assert not accepted
    assert refusals["key"].status == "failed"
    assert "without the record 'plan'" in refusals["key"].reason


def test_training_without_protection_is_said_once_a_round_in_the_clients_log(site, data, caplog):
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


def test_a_round_without_protection_needs_no_budget_and_has_no_epsilon(site, data):
    plan = dataclasses.replace(PLAN, private=False, noise_multiplier=0.0)
    update = site.train(data, plan, allow_unprotected=True)
    assert update.epsilon == math.inf
    assert update.spent == (Entry(0.2, 0.0, 4),)


def test_only_a_round_that_names_its_result_is_repeated_without_a_payment(site, data):
    client = site.client(data)
    content = plan_to_content(PLAN, encode({}))
    for repeats, again in (("same", 1), ("same", 1), ("other", 0), ("", 0)):
        accepted, _ = site.rounds.accept([("key", client, content)])
        paid, refusals = site.rounds.pay(accepted, lambda plan, value=repeats: value)
        assert len(paid) == again
        assert len(refusals) == 1 - again
    assert site.spent() == (Entry(0.2, 1.0, 4),)


def test_failed_rounds_are_not_committed_and_the_others_are(site, data):
    client = site.client(data)
    paid = []
    for server_round in (1, 2):
        content = plan_to_content(dataclasses.replace(PLAN, server_round=server_round), encode({}))
        accepted, _ = site.rounds.accept([(str(server_round), client, content)])
        paid += site.rounds.pay(accepted)[0]
    answers = site.rounds.settle([(paid[0], Trained({"w": np.ones(2)})), (paid[1], Trained(problem="no"))])
    assert answers["2"] == Refusal("failed", "no")
    assert answers["1"].steps == 4
    assert answers["1"].spent == (Entry(0.2, 1.0, 8),)  # both are paid for
    (account,) = site.ledger.accounts()
    assert [one.committed for one in account.rounds] == [True, False]


def test_a_ledgers_words_name_files_and_stay_at_home(site, caplog):
    answers = refuse(["a", "b"], LedgerError("/home/smith/ledger.sqlite: digits is in use"))
    assert set(answers) == {"a", "b"}
    assert answers["a"] == Refusal("failed", "its ledger cannot be used; its own log says why")
    assert "/home/smith" in caplog.text


def test_an_attempt_gives_way_to_fatal_errors_alone():
    def fail():
        raise KeyError("the GPU is lost")

    with pytest.raises(KeyError):
        attempt(fail, fatal=(KeyError,))
    assert attempt(fail, fatal=(ValueError,)).problem == "an unexpected error; its own log says which"
    assert attempt(dict) == Trained({})


def test_a_round_that_was_paid_for_and_is_not_repeated_is_no_decline(site, data):
    """A decline tells the server that the round has cost nothing."""
    assert site.train(data).steps == 4
    again = site.train(data)
    assert (again.status, again.budget_exhausted) == ("failed", False)
    assert "was taken before; it is not repeated" in again.reason


class _KeepsKey:
    """A training that notes its key for two digests of weights."""

    def __init__(self):
        self.keys = []

    def prepare(self, plan, content):
        pass

    def train(self, paid):
        self.keys.append((paid.key("weights"), paid.key("other weights")))
        return {}


def _keys(site, data, plan=PLAN):
    training = _KeepsKey()
    play(site.rounds, site.client(data), plan_to_content(plan, encode({})), training)
    return training.keys[0]


def test_a_key_is_new_for_every_payment_and_each_thing_that_it_is_used_for(tmp_path, data):
    """Of one ledger, and of two copies of it that hold the same bytes."""
    found = []
    for name in ("one", "copy"):
        (tmp_path / name).mkdir()
        site = Site(tmp_path / name)
        found += _keys(site, data)
        found += _keys(site, data, dataclasses.replace(PLAN, server_round=2))
    assert len(set(found)) == 8
    assert all(len(key) == 32 for key in found)


def test_where_two_payments_have_the_same_bytes_keys_differ_with_all_that_they_cover(
    tmp_path, data, monkeypatch
):
    monkeypatch.setattr("fl_dp.accounting.ledger.ledger.new_key", lambda: b"k" * 32)
    other = TensorData(data.x[1:], data.y[1:], data.classes)
    found = {}
    for name, records, plan in (
        ("same", data, PLAN),
        ("again", data, PLAN),
        ("records", other, PLAN),
        ("name", data, PLAN),
        ("rate", data, dataclasses.replace(PLAN, learning_rate=0.25)),
        ("round", data, dataclasses.replace(PLAN, server_round=2)),
    ):
        (tmp_path / name).mkdir()
        site = Site(tmp_path / name)
        if name == "name":
            site.settings = dataclasses.replace(site.settings, data_name="another")
        found[name] = _keys(site, records, plan)
    assert found.pop("again") == found["same"]
    assert len({key for keys in found.values() for key in keys}) == 2 * len(found)


def test_the_bytes_of_a_deployed_clients_payment_are_never_on_its_disk(tmp_path, data, monkeypatch):
    key = bytes(range(200, 232))
    monkeypatch.setattr("fl_dp.accounting.ledger.ledger.new_key", lambda: key)
    site = Site(tmp_path)
    _keys(site, data)
    assert all(key not in file.read_bytes() for file in tmp_path.iterdir())


def test_two_rounds_of_one_client_that_start_alike_have_other_draws_and_noise(tmp_path, data):
    """Weights, data and plan are the same but for the number of the round."""
    site = Site(tmp_path)
    updates = [
        site.train(data, dataclasses.replace(PLAN, server_round=number, steps=1)).arrays["weight"]
        for number in (1, 2)
    ]
    assert not np.isclose(updates[0], updates[1], rtol=0, atol=1e-6).any()


def test_what_a_client_keeps_lies_beside_its_ledger(site, data, tmp_path, monkeypatch):
    """And not in the folder that the process happens to run in."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    site.train(data)
    assert not list(elsewhere.iterdir())
