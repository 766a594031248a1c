"""What clients keep between a simulation's rounds: whoever trains, and whatever was begun before."""

import dataclasses
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
import pytest

from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.simulation.actor import training_actor
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.training.kept import digest_of_state

CLIENTS = 12
ADAM = {"optimizer": "adam", "learning_rate": 0.05, "optimizer_state": "keep"}
OWN_MODEL = {"local_algorithm": "mr-mtl", "pull": 0.3}
every_kind = pytest.mark.parametrize("kind", [ADAM, OWN_MODEL], ids=["adam", "mr-mtl"])


def keeping(federation: Any, **changes: Any) -> Any:
    """The federation, whose plans ask for an optimizer that keeps its state, or for something else."""
    plan = federation.plan
    asked = changes or ADAM
    federation.plan = MethodType(lambda self, n=1: dataclasses.replace(plan(n), **asked), federation)
    return anew(federation)


def anew(federation: Any) -> Any:
    """As after a kill: nothing is there but what is on the disk."""
    states = KeptStates(federation.folder / FOLDER)
    parts = SharedParts(federation.shared)
    federation.clients = SimulatedClients(federation.config(), parts, federation.ledger, states)
    return federation


def same(one: dict[int, Any], other: dict[int, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(array, other[client][name])
        for client, arrays in one.items()
        for name, array in arrays.items()
    )


@every_kind
def test_the_states_do_not_depend_on_who_trained(fake_ray, two_federations, kind):
    """Bit for bit, in all rounds, for 1 and for 2 processes."""
    federations = [keeping(one, **kind) for one in two_federations]
    grids = [one.grid_of(fake_ray, size) for one, size in zip(federations, (1, 2), strict=True)]
    for server_round in (1, 2, 3):
        one, other = (made.updates(grid, server_round) for made, grid in zip(federations, grids, strict=True))
        assert len(one) == CLIENTS
        assert same(one, other)
    kept = [
        {file.name: file.read_bytes() for file in (federation.folder / FOLDER).iterdir()}
        for federation in two_federations
    ]
    assert kept[0] == kept[1]


@every_kind
def test_a_kept_state_decides_the_next_update(fake_ray, two_federations, monkeypatch, kind):
    """With the same draws and noise the first round is the same, and the second is another."""
    seen = []
    for federation in (keeping(one, **kind) for one in two_federations):
        grid = federation.grid_of(fake_ray, 2)
        seen.append([federation.updates(grid, server_round) for server_round in (1, 2)])
        anew = partial(_begin_anew, training_actor.go_on_from)
        monkeypatch.setattr(training_actor, "go_on_from", anew)  # for the second
    assert same(seen[0][0], seen[1][0])
    assert not any(same({0: seen[0][1][client]}, {0: seen[1][1][client]}) for client in range(CLIENTS))


def _begin_anew(begin: Callable[..., None], trainer: Any, start: Any, state: bytes) -> None:
    begin(trainer, start, b"")


def test_nothing_is_kept_unless_it_is_asked_for(fake_ray, federation):
    grid = keeping(federation, **ADAM | {"optimizer_state": "reset"}).grid_of(fake_ray, 2)
    assert len(federation.updates(grid, 1)) == CLIENTS
    assert not (federation.folder / FOLDER).exists()


@every_kind
@pytest.mark.parametrize("settled", [True, False])
def test_a_round_that_was_begun_is_the_same_again(fake_ray, two_federations, settled, kind):
    """After a kill: from the states that it began with, though its own are kept already; paid for once."""
    broken, straight = (keeping(one, **kind) for one in two_federations)
    grid = straight.grid_of(fake_ray, 2)
    expected = [straight.updates(grid, server_round) for server_round in (1, 2)]
    grid = broken.grid_of(fake_ray, 2)
    assert same(broken.updates(grid, 1), expected[0])
    if settled:
        grid.erase_keys("run", 1)
    assert same(broken.updates(grid, 2), expected[1])
    again = broken.updates(anew(broken).grid_of(fake_ray, 1), 2)
    assert same(again, expected[1])
    assert broken.steps() == straight.steps()


def test_a_round_is_not_repeated_from_other_states(fake_ray, federation):
    """It may have been released already, and the same noise on another state would show their difference."""
    grid = keeping(federation).grid_of(fake_ray, 2)
    for server_round in (1, 2):
        assert len(federation.updates(grid, server_round)) == CLIENTS
    for file in (federation.folder / FOLDER).glob("*-1.pt"):
        file.unlink()
    answers = federation.round(anew(federation).grid_of(fake_ray, 1), federation.messages(2))
    assert len(answers.refused) == CLIENTS
    assert all("paid for" in reason or "already taken" in reason for reason in answers.refused.values())


def test_the_state_is_an_input_of_the_key(federation):
    """Of the key that the training process gets, and not only of what may be asked of a payment."""
    keeping(federation)
    content = federation.messages(2, summed=False)[0].content
    for client, state in ((0, b""), (1, b"state")):
        if state:
            federation.clients._states.save(1, {str(client): state})
        works, _ = federation.clients.read({client: (str(client), content)})
        (work,), _ = federation.clients.pay(works, "w")
        paid = federation.clients._paid[str(client)]
        assert work.state == state
        assert work.key == paid.key("w", digest_of_state(state))
        assert (work.key == paid.key("w")) is (not state)


def test_states_before_the_last_settled_round_are_gone(fake_ray, federation):
    grid = keeping(federation).grid_of(fake_ray, 2)
    for server_round in (1, 2, 3):
        federation.updates(grid, server_round)
        grid.erase_keys("run", server_round)
    assert {file.stem.partition("-")[2] for file in (federation.folder / FOLDER).iterdir()} == {"3"}


def test_a_client_that_fails_goes_on_from_its_last_state(fake_ray, federation, monkeypatch):
    grid = keeping(federation).grid_of(fake_ray, 2)
    federation.updates(grid, 1)
    monkeypatch.setattr(training_actor, "update_of", lambda trainer: None)
    answers = federation.round(grid, federation.messages(2))
    assert len(answers.refused) == CLIENTS
    assert {file.stem.partition("-")[2] for file in (federation.folder / FOLDER).iterdir()} == {"1"}


def test_a_sum_is_of_all_that_is_sent(fake_ray, two_federations):
    """Updates by themselves, averaged here, are the average that the other federation sends."""
    single, summed = (keeping(one, **OWN_MODEL) for one in two_federations)
    grids = single.grid_of(fake_ray, 1), summed.grid_of(fake_ray, 2)
    for server_round in (1, 2):
        one_by_one = single.updates(grids[0], server_round)
        answers = summed.round(grids[1], summed.messages(server_round))
        assert not answers.refused
        for name in summed.specs:
            total = sum((k + 1.0) * one_by_one[k][name].astype(np.float64) for k in range(CLIENTS))
            average = total / sum(range(1, CLIENTS + 1))
            np.testing.assert_allclose(answers.average[name], average, rtol=1e-5, atol=1e-6)
