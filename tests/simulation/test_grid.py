"""The grid's promise: what it answers equals plain federated averaging of the same clients' updates."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, MessageType, RecordDict
from ray.exceptions import ActorDiedError

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.server.strategy import PrivateStrategy
from fl_dp.federation.wire.arrays import encode
from fl_dp.federation.wire.messages import plan_to_content, profile_from_content
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.grid import TOO_LATE
from fl_dp.simulation.quarantine import TRIES

CLIENTS = 12


def pool_of(fake: Any, federation: Any, size: int, **settings: Any) -> ActorPool:
    return ActorPool(lambda: fake.start_actor(lambda: federation.actor(**settings)), size, 600.0, at_once=64)


def close(one: Any, other: Any) -> bool:
    """To 1e-6 of the largest element, array by array."""
    return one.keys() == other.keys() and all(
        np.abs(one[name] - other[name]).max() <= 1e-6 * np.abs(other[name]).max() for name in other
    )


@pytest.mark.parametrize("actors", [1, 2, 4])
def test_sums_equal_plain_averaging_of_single_updates(
    fake_ray: Any, two_federations: Any, actors: int
) -> None:
    one, other = two_federations
    single = other.round(other.grid(pool_of(fake_ray, other, 1)), other.messages(summed=False))
    summed = one.round(one.grid(pool_of(fake_ray, one, actors)), one.messages())
    assert close(summed.average, single.average)
    assert summed.spent == single.spent
    assert len(summed.spent) == CLIENTS


def test_the_order_of_the_clients_changes_nothing(fake_ray: Any, two_federations: Any) -> None:
    averages = []
    for federation, shuffle in zip(two_federations, (False, True), strict=True):
        messages = federation.messages()
        if shuffle:
            random.Random(0).shuffle(messages)
        grid = federation.grid(pool_of(fake_ray, federation, 2))
        averages.append(federation.round(grid, messages).average)
    assert close(*averages)


def test_a_clients_update_does_not_depend_on_its_actor(fake_ray: Any, two_federations: Any) -> None:
    """Bit for bit, also where some take their first step together: whoever trains them, and after whom."""
    updates = []
    for federation, actors in zip(two_federations, (1, 5), strict=True):
        grid = federation.grid(pool_of(fake_ray, federation, actors))
        updates.append(_updates(grid, federation.messages(summed=False)))
    assert len(updates[0]) == CLIENTS
    for client, arrays in updates[0].items():
        assert all(np.array_equal(array, updates[1][client][name]) for name, array in arrays.items())


def test_a_clients_update_does_not_depend_on_who_else_takes_part(fake_ray: Any, two_federations: Any) -> None:
    """But for rounding, if they take their first step together."""
    one, other = two_federations
    among_all = _updates(one.grid(pool_of(fake_ray, one, 3)), one.messages(summed=False))
    messages = other.messages(summed=False)
    for client in (5, CLIENTS - 1):
        alone = _updates(other.grid(pool_of(fake_ray, other, 3)), messages[client : client + 1])
        assert close(alone[client], among_all[client])


def _updates(grid: Any, messages: list[Message]) -> dict[int, dict[str, Any]]:
    return {
        reply.metadata.src_node_id - 1: {k: array.numpy() for k, array in reply.content["arrays"].items()}
        for reply in grid.send_and_receive(messages)
    }


def test_clients_and_rounds_have_randomness_of_their_own(fake_ray: Any, federation: Any) -> None:
    grid = federation.grid(pool_of(fake_ray, federation, 2))
    seen = []
    for server_round in (1, 2):
        for reply in grid.send_and_receive(federation.messages(server_round, summed=False)):
            seen.append(reply.content["arrays"]["1.bias"].numpy().tobytes())
    assert len(set(seen)) == 2 * CLIENTS


def test_twenty_rounds_with_processes_that_die_at_random(fake_ray: Any, two_federations: Any) -> None:
    """Model, epsilon's steps and counts are those of the run in which nothing died."""
    disturbed, calm = two_federations
    models, luck = [], random.Random(5)
    for federation in two_federations:
        striking = federation is disturbed
        fake_ray.fault = lambda ref, ended, on=striking: (
            ActorDiedError() if on and luck.random() < 0.03 else None
        )
        grid, arrays = federation.grid(pool_of(fake_ray, federation, 3)), None
        for server_round in range(1, 21):
            answers = federation.round(grid, federation.messages(server_round, arrays=arrays))
            assert not answers.refused
            assert len(answers.spent) == CLIENTS
            arrays = answers.average
        models.append(arrays)
        ended = [work for work in federation.work if work.ended]
        assert [work.over for work in ended] == [CLIENTS] * 20
        assert any(work.repeated for work in ended) == striking
    assert close(*models)
    assert disturbed.steps() == calm.steps() == dict.fromkeys(range(CLIENTS), 40)


def test_what_fails_is_paid_for_and_left_out(fake_ray: Any, two_federations: Any, monkeypatch: Any) -> None:
    """The others' average is the one that they have without it; its steps are spent, once."""
    federation, without = two_federations
    with monkeypatch.context() as patch:
        _misbehave(patch, {"2": "raises", "4": "not finite", "9": "ends its process"}, fake_ray)
        answers = federation.round(federation.grid(pool_of(fake_ray, federation, 2)), federation.messages())
    assert answers.refused == {
        2: "an unexpected error; its own log says which",
        4: "its update holds values that are not finite",
        9: "its process ended while it was trained (killed, or out of memory)",
    }
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 2)
    assert federation.work[-1].failed == 3
    fake_ray.fault = lambda ref, ended: None
    fine = [message for k, message in enumerate(without.messages()) if k not in answers.refused]
    expected = without.round(without.grid(pool_of(fake_ray, without, 1)), fine)
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

    def fault(ref: Any, ended: bool) -> Any:
        hit = ref.method == "train" and any(item.client in doomed for item in ref.args[1])
        return ActorDiedError() if hit else None

    fake_ray.fault = fault


def test_a_failed_client_may_take_part_in_the_next_round(fake_ray: Any, federation: Any) -> None:
    grid = federation.grid(pool_of(fake_ray, federation, 2))
    left = iter(range(TRIES + 1))

    def fault(ref: Any, ended: bool) -> Any:
        doomed = ref.method == "train" and any(item.client == "0" for item in ref.args[1])
        return ActorDiedError() if doomed and next(left, None) is not None else None

    fake_ray.fault = fault
    assert list(federation.round(grid, federation.messages(1)).refused) == [0]
    assert not federation.round(grid, federation.messages(2)).refused
    assert federation.steps()[0] == 4


def test_a_round_out_of_time_answers_with_what_is_done(
    fake_ray: Any, fakes: Any, federation: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("fl_dp.simulation.grid.time", fake_ray)

    def fault(ref: Any, ended: bool) -> Any:
        hangs = ref.method == "train" and any(item.client == "11" for item in ref.args[1])
        return fakes.HANGS if hangs else None

    fake_ray.fault = fault
    grid = federation.grid(pool_of(fake_ray, federation, 2))
    answers = federation.round(grid, federation.messages(ttl=20.0))  # 20 s, a client may take 600
    assert answers.average is not None
    assert 0 < len(answers.refused) < CLIENTS
    assert set(answers.refused.values()) == {TOO_LATE}
    assert fake_ray.now < 20.0
    assert federation.steps() == dict.fromkeys(range(CLIENTS), 2)


def test_a_round_is_begun_once_however_often_it_is_looked_at(
    fake_ray: Any, federation: Any, monkeypatch: Any
) -> None:
    """Begun again, it would train its clients again, on new actors, until its time is over."""
    monkeypatch.setattr("fl_dp.simulation.grid.time", fake_ray)
    trained: list[str] = []

    def slow(ref: Any, ended: bool) -> None:
        if ended and ref.method == "train":
            fake_ray.now += 2.0  # the grid looks several times a second
            trained.extend(item.client for item in ref.args[1])

    fake_ray.fault = slow
    grid = federation.grid(pool_of(fake_ray, federation, 2))
    answers = federation.round(grid, federation.messages(ttl=100.0))
    assert sorted(trained, key=int) == [str(client) for client in range(CLIENTS)]
    assert len(answers.spent) == CLIENTS
    assert len(fake_ray.actors) == 2


def test_registration_is_answered_at_once(fake_ray: Any, federation: Any) -> None:
    grid = federation.grid(pool_of(fake_ray, federation, 1))
    replies = grid.send_and_receive([Message(RecordDict(), k, MessageType.QUERY) for k in (1, 12)])
    profiles = [profile_from_content(reply.content) for reply in replies]
    assert sorted((p.client, p.public_size) for p in profiles) == [("0", 30), ("11", 52)]
    assert not fake_ray.actors


@pytest.mark.parametrize(
    ("node", "kind", "words"),
    [
        (13, MessageType.TRAIN, "no such node"),
        (0, MessageType.TRAIN, "no such node"),
        (1, MessageType.EVALUATE, "answers no evaluate message"),
        (3, MessageType.TRAIN, "one such message at a time"),
    ],
)
def test_what_cannot_be_answered_is_an_error_not_a_silence(
    fake_ray: Any, federation: Any, node: int, kind: str, words: str
) -> None:
    grid = federation.grid(pool_of(fake_ray, federation, 1))
    good = federation.messages()[2]
    odd = Message(good.content, node, kind)
    replies = list(grid.send_and_receive([good, odd]))
    errors = [reply.error.reason for reply in replies if reply.has_error()]
    assert len(replies) == 2
    assert len(errors) == 1
    assert words in errors[0]


def test_weights_of_another_model_are_declined_and_not_paid_for(fake_ray: Any, federation: Any) -> None:
    grid = federation.grid(pool_of(fake_ray, federation, 1))
    wrong = {name: array[:1] for name, array in federation.start.items()}
    answers = federation.round(grid, federation.messages(arrays=wrong))
    assert len(answers.refused) == CLIENTS
    assert all("weights received for model linear" in words for words in answers.refused.values())
    assert set(federation.steps().values()) == {0}


def test_what_preparation_raises_ends_the_run_as_it_was(fake_ray: Any, federation: Any) -> None:
    def prepare(plan: Any) -> Any:
        raise ConfigError("Not even one example fits 5 MiB.")

    grid = federation.grid(pool_of(fake_ray, federation, 1))
    grid._prepare = prepare
    with pytest.raises(ConfigError, match="Not even one example"):
        grid.push_messages(federation.messages())


def test_a_caller_is_never_kept_waiting_for_long(
    fake_ray: Any, fakes: Any, federation: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("fl_dp.simulation.grid.time", fake_ray)
    fake_ray.fault = hang_in_training(fakes)
    grid = federation.grid(pool_of(fake_ray, federation, 1))
    sent = grid.push_messages(federation.messages())
    before = fake_ray.now
    assert not list(grid.pull_messages(sent))
    assert fake_ray.now - before <= 1.5
    assert not list(grid.send_and_receive([], timeout=0.0))


def hang_in_training(fakes: Any) -> Callable[[Any, bool], Any]:
    return lambda ref, ended: fakes.HANGS if ref.method == "train" else None


def test_a_median_gets_every_single_update_from_a_simulation(fake_ray: Any, two_federations: Any) -> None:
    """The median of the actors' sums would be another number, without complaint."""
    one, other = two_federations
    config = RunConfig(
        clients=CLIENTS, min_clients=CLIENTS, fit_clients=CLIENTS, rounds=1, noise_multiplier=1.0,
        expected_batch_size=8, physical_batch_size=8, aggregation="median", accountant="rdp",
    )  # fmt: skip
    trained: list[Any] = []
    strategy = PrivateStrategy(config, "run", one.specs, trained.append)
    grid = one.grid(pool_of(fake_ray, one, 3))
    strategy.start(grid, encode(one.start))
    assert {client.status for client in trained[0].clients.values()} == {"trained"}
    plans = [dataclasses.replace(other.plan(), steps=-(-(30 + 2 * k) // 8)) for k in range(CLIENTS)]
    messages = [
        Message(plan_to_content(plan, encode(other.start)), k + 1, MessageType.TRAIN)
        for k, plan in enumerate(plans)
    ]
    updates = _updates(other.grid(pool_of(fake_ray, other, 1)), messages)
    for name, array in strategy.result.arrays.items():
        middle = np.median([update[name] for update in updates.values()], axis=0)
        np.testing.assert_allclose(array.numpy(), middle, rtol=1e-5, atol=1e-6)


def test_a_round_that_was_paid_for_and_cannot_be_repeated_counts(fake_ray: Any, federation: Any) -> None:
    """As after a resumption with another PyTorch: its clients train nothing, and what it cost is reported."""
    config = RunConfig(
        clients=CLIENTS, min_clients=CLIENTS, fit_clients=CLIENTS, rounds=1, noise_multiplier=1.0,
        expected_batch_size=8, physical_batch_size=8, accountant="rdp",
    )  # fmt: skip
    strategy = PrivateStrategy(config, "run", federation.specs, lambda report: None)
    grid = federation.grid(pool_of(fake_ray, federation, 2))
    federation.clients.register(range(CLIENTS))
    list(grid.get_node_ids())
    strategy._parts.registration.gather(grid)  # the server knows the ledgers as they were before the round
    paid = {k: (str(k), federation.messages()[k].content) for k in range(CLIENTS)}
    works, _ = federation.clients.read(paid)
    federation.clients.pay(works, "the same weights under another PyTorch")
    strategy.start(grid, encode(federation.start))
    clients = strategy.reports[0].clients
    assert {client.status for client in clients.values()} == {"failed"}
    assert "taken before" in clients["0"].reason
    for name, steps in federation.steps().items():
        assert clients[str(name)].steps >= steps == 2
    assert strategy.guarantee().epsilon > 0
