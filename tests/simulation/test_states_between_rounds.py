"""What clients keep between a simulation's rounds: whoever trains, and whatever was begun before."""

import dataclasses
from types import MethodType
from typing import Any

import numpy as np
import pytest

from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.wire.messages import ARRAYS
from fl_dp.simulation.actor import training_actor
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.clients import SimulatedClients

CLIENTS = 12
ADAM = {"optimizer": "adam", "learning_rate": 0.05, "optimizer_state": "keep"}


def keeping(federation: Any, **changes: Any) -> Any:
    """The federation, whose plans ask for an optimizer that keeps its state."""
    plan = federation.plan
    asked = ADAM | changes
    federation.plan = MethodType(lambda self, n=1: dataclasses.replace(plan(n), **asked), federation)
    return anew(federation)


def anew(federation: Any) -> Any:
    """As after a kill: nothing is there but what is on the disk."""
    states = KeptStates(federation.folder / FOLDER)
    parts = SharedParts(federation.shared)
    federation.clients = SimulatedClients(federation.config(), parts, federation.ledger, states)
    return federation


def grid_of(fake: Any, federation: Any, size: int) -> Any:
    pool = ActorPool(lambda: fake.start_actor(federation.actor), size, 600.0, at_once=64)
    return federation.grid(pool)


def updates(grid: Any, federation: Any, server_round: int) -> dict[int, dict[str, Any]]:
    replies = grid.send_and_receive(federation.messages(server_round, summed=False))
    return {
        reply.metadata.src_node_id - 1: {k: array.numpy() for k, array in reply.content[ARRAYS].items()}
        for reply in replies
    }


def same(one: dict[int, Any], other: dict[int, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(array, other[client][name])
        for client, arrays in one.items()
        for name, array in arrays.items()
    )


def test_the_states_do_not_depend_on_who_trained(fake_ray: Any, two_federations: Any) -> None:
    """Bit for bit, in all rounds, for 1 and for 2 processes."""
    grids = [grid_of(fake_ray, keeping(one), size) for one, size in zip(two_federations, (1, 2), strict=True)]
    for server_round in (1, 2, 3):
        one, other = (updates(*pair, server_round) for pair in zip(grids, two_federations, strict=True))
        assert len(one) == CLIENTS
        assert same(one, other)
    kept = [
        {file.name: file.read_bytes() for file in (federation.folder / FOLDER).iterdir()}
        for federation in two_federations
    ]
    assert kept[0] == kept[1]


def test_a_kept_state_decides_the_next_update(
    fake_ray: Any, two_federations: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same draws and noise the first round is the same, and the second is another."""
    seen = []
    for federation in map(keeping, two_federations):
        grid = grid_of(fake_ray, federation, 2)
        seen.append([updates(grid, federation, server_round) for server_round in (1, 2)])
        monkeypatch.setattr(
            training_actor, "go_on_from", lambda trainer, start, state: None
        )  # for the second
    assert same(seen[0][0], seen[1][0])
    assert not any(same({0: seen[0][1][client]}, {0: seen[1][1][client]}) for client in range(CLIENTS))


def test_nothing_is_kept_unless_it_is_asked_for(fake_ray: Any, federation: Any) -> None:
    grid = grid_of(fake_ray, keeping(federation, optimizer_state="reset"), 2)
    assert len(updates(grid, federation, 1)) == CLIENTS
    assert not (federation.folder / FOLDER).exists()


@pytest.mark.parametrize("settled", [True, False])
def test_a_round_that_was_begun_is_the_same_again(fake_ray: Any, two_federations: Any, settled: bool) -> None:
    """After a kill: from the states that it began with, though its own are kept already; paid for once."""
    broken, straight = map(keeping, two_federations)
    grid = grid_of(fake_ray, straight, 2)
    expected = [updates(grid, straight, server_round) for server_round in (1, 2)]
    grid = grid_of(fake_ray, broken, 2)
    assert same(updates(grid, broken, 1), expected[0])
    if settled:
        grid.erase_keys("run", 1)
    assert same(updates(grid, broken, 2), expected[1])
    again = updates(grid_of(fake_ray, anew(broken), 1), broken, 2)
    assert same(again, expected[1])
    assert broken.steps() == straight.steps()


def test_a_round_is_not_repeated_from_other_states(fake_ray: Any, federation: Any) -> None:
    """It may have been released already, and the same noise on another state would show their difference."""
    grid = grid_of(fake_ray, keeping(federation), 2)
    for server_round in (1, 2):
        assert len(updates(grid, federation, server_round)) == CLIENTS
    for file in (federation.folder / FOLDER).glob("*-1.pt"):
        file.unlink()
    answers = federation.round(grid_of(fake_ray, anew(federation), 1), federation.messages(2))
    assert len(answers.refused) == CLIENTS
    assert all("paid for" in reason or "before" in reason for reason in answers.refused.values())


def test_the_state_is_an_input_of_the_key(federation: Any) -> None:
    works, _ = keeping(federation).clients.read({0: ("m", federation.messages(2, summed=False)[0].content)})
    (fresh,), _ = federation.clients.pay(works, "w")
    paid = federation.clients._paid["m"]
    assert fresh.key == paid.key("w")
    assert paid.key("w", "state") != fresh.key


def test_a_client_that_fails_goes_on_from_its_last_state(
    fake_ray: Any, federation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(fake_ray, keeping(federation), 2)
    updates(grid, federation, 1)
    monkeypatch.setattr(training_actor, "update_of", lambda trainer: None)
    answers = federation.round(grid, federation.messages(2))
    assert len(answers.refused) == CLIENTS
    assert {file.stem.partition("-")[2] for file in (federation.folder / FOLDER).iterdir()} == {"1"}
