"""The grid's promise: what it answers equals plain federated averaging of the same clients' updates."""

import random
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, MessageType, RecordDict
from ray.exceptions import ActorDiedError

from fl_dp.config.run import RunConfig
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import profile_from_content
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.grid import TOO_LATE

CLIENTS = 12


def close(one: Any, other: Any) -> bool:
    """To 1e-6 of the largest element, array by array."""
    return one.keys() == other.keys() and all(
        np.abs(one[name] - other[name]).max() <= 1e-6 * np.abs(other[name]).max() for name in other
    )


@pytest.mark.parametrize("actors", [1, 3])
def test_sums_equal_plain_averaging_of_single_updates(fake_ray, two_federations, actors):
    one, other = two_federations
    single = other.round(other.grid_of(fake_ray, 1), other.messages(summed=False))
    summed = one.round(one.grid_of(fake_ray, actors), one.messages())
    assert close(summed.average, single.average)
    assert summed.spent == single.spent
    assert len(summed.spent) == CLIENTS


def test_a_clients_update_does_not_depend_on_its_actor(fake_ray, two_federations):
    """Bit for bit: whoever trains them, and after whom."""
    updates = []
    for federation, actors in zip(two_federations, (1, 5), strict=True):
        grid = federation.grid_of(fake_ray, actors)
        updates.append(federation.updates(grid))
    assert len(updates[0]) == CLIENTS
    for client, arrays in updates[0].items():
        assert all(np.array_equal(array, updates[1][client][name]) for name, array in arrays.items())


def test_a_clients_update_does_not_depend_on_who_else_takes_part(fake_ray, two_federations):
    one, other = two_federations
    among_all = one.updates(one.grid_of(fake_ray, 3))
    messages = other.messages(summed=False)
    for client in (5, CLIENTS - 1):
        alone = other.updates(other.grid_of(fake_ray, 3), messages=messages[client : client + 1])
        for name, array in alone[client].items():
            assert np.array_equal(array, among_all[client][name])


def test_clients_and_rounds_have_randomness_of_their_own(fake_ray, federation):
    grid = federation.grid_of(fake_ray, 2)
    rounds = [federation.updates(grid, server_round) for server_round in (1, 2)]
    assert len({one["1.bias"].tobytes() for clients in rounds for one in clients.values()}) == 2 * CLIENTS


def test_ten_rounds_with_processes_that_die_at_random(fake_ray, two_federations):
    """Model, epsilon's steps and counts are those of the run in which nothing died."""
    disturbed, calm = two_federations
    models, luck = [], random.Random(5)
    for federation in two_federations:
        striking = federation is disturbed
        fake_ray.fault = lambda ref, ended, on=striking: (
            ActorDiedError() if on and luck.random() < 0.01 else None
        )
        grid, arrays = federation.grid_of(fake_ray, 3), None
        for server_round in range(1, 11):
            answers = federation.round(grid, federation.messages(server_round, arrays=arrays))
            assert not answers.refused
            assert len(answers.spent) == CLIENTS
            arrays = answers.average
        models.append(arrays)
        ended = [work for work in federation.work if work.ended]
        assert [work.over for work in ended] == [CLIENTS] * 10
        assert any(work.repeated for work in ended) == striking
    assert close(*models)
    assert disturbed.steps() == calm.steps() == dict.fromkeys(range(CLIENTS), 20)


def test_what_fails_is_paid_for_and_left_out(fake_ray, two_federations, monkeypatch):
    """The others' average is the one that they have without it; its steps are spent, once."""
    federation, without = two_federations
    with monkeypatch.context() as patch:
        _misbehave(patch, {"2": "raises", "4": "not finite", "9": "ends its process"}, fake_ray)
        answers = federation.round(federation.grid_of(fake_ray, 2), federation.messages())
    assert answers.refused == {
        2: "an unexpected error; its own log says which",
        4: "its update holds values that are not finite",
        9: "its process ended while it was trained (killed, or out of memory)",
    }
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 2)
    assert federation.work[-1].failed == 3
    fake_ray.fault = lambda ref, ended: None
    fine = [message for k, message in enumerate(without.messages()) if k not in answers.refused]
    expected = without.round(without.grid_of(fake_ray, 1), fine)
    assert close(answers.average, expected.average)


def _misbehave(monkeypatch: Any, clients: dict[str, str], fake_ray: Any) -> None:
    honest = TrainingActor._train

    def train(self: TrainingActor, item: Any) -> Any:
        what = clients.get(item.client)
        if what == "raises":
            raise ValueError("patient 17")
        update = honest(self, item)
        return None if what == "not finite" else update

    monkeypatch.setattr(TrainingActor, "_train", train)
    doomed = {client for client, what in clients.items() if what == "ends its process"}

    fake_ray.fault = lambda ref, ended: ActorDiedError() if trains(ref, *doomed) else None


def trains(ref: Any, *clients: str) -> bool:
    return ref.method == "train" and any(item.client in clients for item in ref.args[1])


def test_a_round_out_of_time_answers_with_what_is_done(fake_ray, fakes, federation, monkeypatch):
    monkeypatch.setattr("fl_dp.simulation.grid.time", fake_ray)

    fake_ray.fault = lambda ref, ended: fakes.HANGS if trains(ref, "11") else None
    grid = federation.grid_of(fake_ray, 2)
    answers = federation.round(grid, federation.messages(ttl=20.0))  # 20 s, a client may take 600
    assert answers.average is not None
    assert 0 < len(answers.refused) < CLIENTS
    assert set(answers.refused.values()) == {TOO_LATE}
    assert fake_ray.now < 20.0
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 2)


def test_a_round_is_begun_once_however_often_it_is_looked_at(fake_ray, federation, monkeypatch):
    """Begun again, it would train its clients again, on new actors, until its time is over."""
    monkeypatch.setattr("fl_dp.simulation.grid.time", fake_ray)
    trained: list[str] = []

    def slow(ref: Any, ended: bool) -> None:
        if ended and ref.method == "train":
            fake_ray.now += 2.0  # the grid looks several times a second
            trained.extend(item.client for item in ref.args[1])

    fake_ray.fault = slow
    grid = federation.grid_of(fake_ray, 2)
    answers = federation.round(grid, federation.messages(ttl=100.0))
    assert sorted(trained, key=int) == [str(client) for client in range(CLIENTS)]
    assert len(answers.spent) == CLIENTS
    assert len(fake_ray.actors) == 2


def test_registration_is_answered_at_once(fake_ray, federation):
    grid = federation.grid_of(fake_ray, 1)
    replies = grid.send_and_receive([Message(RecordDict(), k, MessageType.QUERY) for k in (1, 12)])
    profiles = [profile_from_content(reply.content) for reply in replies]
    assert sorted((p.client, p.public_size) for p in profiles) == [("0", 30), ("11", 52)]
    assert not fake_ray.actors


@pytest.mark.parametrize(
    ("node", "kind", "words"),
    [
        (13, MessageType.TRAIN, "no such node"),
        (0, MessageType.TRAIN, "no such node"),
        (1, "query.other", "does not answer query.other messages"),
        (3, MessageType.TRAIN, "one such message at a time"),
    ],
)
def test_what_cannot_be_answered_is_an_error_not_a_silence(fake_ray, federation, node, kind, words):
    grid = federation.grid_of(fake_ray, 1)
    good = federation.messages()[2]
    odd = Message(good.content, node, kind)
    answered, failed = sorted(grid.send_and_receive([good, odd]), key=Message.has_error)
    assert not answered.has_error()
    assert words in failed.error.reason


def test_a_caller_is_never_kept_waiting_for_long(fake_ray, fakes, federation, monkeypatch):
    monkeypatch.setattr("fl_dp.simulation.grid.time", fake_ray)
    fake_ray.fault = lambda ref, ended: fakes.HANGS if ref.method == "train" else None
    grid = federation.grid_of(fake_ray, 1)
    sent = grid.push_messages(federation.messages())
    before = fake_ray.now
    assert not list(grid.pull_messages(sent))
    assert fake_ray.now - before <= 1.5
    assert not list(grid.send_and_receive([], timeout=0.0))


def test_a_round_that_was_paid_for_and_cannot_be_repeated_counts(fake_ray, federation):
    """As after a resumption with another PyTorch: its clients train nothing, and what it cost is reported."""
    config = RunConfig(
        clients=CLIENTS,
        min_clients=CLIENTS,
        fit_clients=CLIENTS,
        rounds=1,
        noise_multiplier=1.0,
        expected_batch_size=8,
        physical_batch_size=8,
        accountant="rdp",
        epsilon=50.0,
    )
    strategy = PrivateStrategy(config, "run", federation.specs, lambda report: None)
    grid = federation.grid_of(fake_ray, 2)
    federation.clients.register(range(CLIENTS))
    list(grid.get_node_ids())
    strategy._parts.registration.gather(grid)  # the server knows the ledgers as they were before the round
    paid = {k: (str(k), federation.messages()[k].content) for k in range(CLIENTS)}
    works, _ = federation.clients.read(paid)
    federation.clients.pay(works, "the same weights under another PyTorch")
    strategy.start(grid, encode(federation.start))
    clients = strategy.reports[0].clients
    assert {client.status for client in clients.values()} == {"failed"}
    assert "already taken" in clients["0"].reason
    for name, steps in federation.steps().items():
        assert clients[str(name)].steps >= steps == 2
    assert strategy.reporting.guarantee().epsilon > 0
