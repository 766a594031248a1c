"""What clients keep between a simulation's rounds: whoever trains, and whatever was begun before."""

import dataclasses
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
import pytest

from fl_dp.federation.client.kept_states import FOLDER, KeptStates
from fl_dp.federation.wire.arrays import specs
from fl_dp.federation.wire.messages import ARRAYS
from fl_dp.records import CONTROL
from fl_dp.simulation.actor import training_actor
from fl_dp.simulation.actor.first_steps import grouped
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.actor_pool import ActorPool
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.work import ClientWork
from fl_dp.training.kept import digest_of_state

CLIENTS = 12
ADAM = {"optimizer": "adam", "learning_rate": 0.05, "optimizer_state": "keep"}
OWN_MODEL = {"local_algorithm": "mr-mtl", "pull": 0.3}
CONTROLS = {"local_algorithm": "scaffold"}
FOLLOWING = {"adaptive_clipping": "quantile:0.5:1"}
every_kind = pytest.mark.parametrize(
    "kind", [ADAM, OWN_MODEL, CONTROLS, FOLLOWING], ids=["adam", "mr-mtl", "scaffold", "adaptive clipping"]
)


def keeping(federation: Any, **changes: Any) -> Any:
    """The federation, whose plans ask for an optimizer that keeps its state, or for something else."""
    plan = federation.plan
    asked = changes or ADAM
    if asked == CONTROLS:
        federation.start |= {CONTROL + name: array / 100 for name, array in federation.start.items()}
        federation.specs = specs(federation.start)
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


@every_kind
def test_the_states_do_not_depend_on_who_trained(
    fake_ray: Any, two_federations: Any, kind: dict[str, Any]
) -> None:
    """Bit for bit, in all rounds, for 1 and for 2 processes."""
    federations = [keeping(one, **kind) for one in two_federations]
    grids = [grid_of(fake_ray, one, size) for one, size in zip(federations, (1, 2), strict=True)]
    for server_round in (1, 2, 3):
        one, other = (updates(*pair, server_round) for pair in zip(grids, two_federations, strict=True))
        assert len(one) == CLIENTS
        assert same(one, other)
    kept = [
        {file.name: file.read_bytes() for file in (federation.folder / FOLDER).iterdir()}
        for federation in two_federations
    ]
    assert kept[0] == kept[1]


@every_kind
def test_a_kept_state_decides_the_next_update(
    fake_ray: Any, two_federations: Any, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    """With the same draws and noise the first round is the same, and the second is another."""
    seen = []
    for federation in (keeping(one, **kind) for one in two_federations):
        grid = grid_of(fake_ray, federation, 2)
        seen.append([updates(grid, federation, server_round) for server_round in (1, 2)])
        anew = partial(_begin_anew, training_actor.go_on_from)
        monkeypatch.setattr(training_actor, "go_on_from", anew)  # for the second
    assert same(seen[0][0], seen[1][0])
    assert not any(same({0: seen[0][1][client]}, {0: seen[1][1][client]}) for client in range(CLIENTS))


def _begin_anew(begin: Callable[..., None], trainer: Any, start: Any, state: bytes) -> None:
    begin(trainer, start, b"")


def test_nothing_is_kept_unless_it_is_asked_for(fake_ray: Any, federation: Any) -> None:
    grid = grid_of(fake_ray, keeping(federation, **ADAM | {"optimizer_state": "reset"}), 2)
    assert len(updates(grid, federation, 1)) == CLIENTS
    assert not (federation.folder / FOLDER).exists()


@every_kind
@pytest.mark.parametrize("settled", [True, False])
def test_a_round_that_was_begun_is_the_same_again(
    fake_ray: Any, two_federations: Any, settled: bool, kind: dict[str, Any]
) -> None:
    """After a kill: from the states that it began with, though its own are kept already; paid for once."""
    broken, straight = (keeping(one, **kind) for one in two_federations)
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


def test_states_before_the_last_settled_round_are_gone(fake_ray: Any, federation: Any) -> None:
    grid = grid_of(fake_ray, keeping(federation), 2)
    for server_round in (1, 2, 3):
        updates(grid, federation, server_round)
        grid.erase_keys("run", server_round)
    assert {file.stem.partition("-")[2] for file in (federation.folder / FOLDER).iterdir()} == {"3"}


def test_a_client_that_fails_goes_on_from_its_last_state(
    fake_ray: Any, federation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(fake_ray, keeping(federation), 2)
    updates(grid, federation, 1)
    monkeypatch.setattr(training_actor, "update_of", lambda trainer: None)
    answers = federation.round(grid, federation.messages(2))
    assert len(answers.refused) == CLIENTS
    assert {file.stem.partition("-")[2] for file in (federation.folder / FOLDER).iterdir()} == {"1"}


@pytest.mark.parametrize("kind", [OWN_MODEL, CONTROLS], ids=["mr-mtl", "scaffold"])
def test_a_sum_is_of_all_that_is_sent(fake_ray: Any, two_federations: Any, kind: dict[str, Any]) -> None:
    """Updates by themselves, averaged here, are the average that the other federation sends."""
    single, summed = (keeping(one, **kind) for one in two_federations)
    grids = grid_of(fake_ray, single, 1), grid_of(fake_ray, summed, 2)
    for server_round in (1, 2):
        one_by_one = updates(grids[0], single, server_round)
        answers = summed.round(grids[1], summed.messages(server_round))
        assert not answers.refused
        for name in summed.specs:
            total = sum((k + 1.0) * one_by_one[k][name].astype(np.float64) for k in range(CLIENTS))
            average = total / sum(range(1, CLIENTS + 1))
            np.testing.assert_allclose(answers.average[name], average, rtol=1e-5, atol=1e-6)


def test_clients_with_models_of_their_own_take_no_step_together(federation: Any) -> None:
    """The passes that several take together are of one set of weights."""
    for changes, groups in (({}, True), (OWN_MODEL, False), ({"personal": "1.bias"}, False)):
        plan = dataclasses.replace(federation.plan(), **changes)
        items = [ClientWork(str(k), str(k), k, plan, 2, 0.2, 1.0) for k in range(16)]
        assert bool(grouped(items, 128, 100)[1]) is groups
