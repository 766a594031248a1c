"""The secure sums of a simulation: added up in the clear, to what the masks of real members open to."""

import dataclasses
from types import MethodType
from typing import Any

import numpy as np
import pytest
from federation.secure_sum.attempts import Played, head

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum.vector import flat
from fl_dp.federation.wire.messages import REFUSAL
from fl_dp.federation.wire.partial_sums import GROUP, SUM
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor, as_arrays
from fl_dp.simulation.clients import SimulatedClients

CLIENTS = 12


def secure(federation: Any, noise: float = 1.0, dropouts: int = 0) -> Any:
    """The federation, whose plans ask for one step into a secure sum."""
    plan, config = federation.plan, federation.config
    asked = {"steps": 1, "shares": CLIENTS - dropouts - 1, "noise_multiplier": noise}
    federation.plan = MethodType(lambda self, n=1: dataclasses.replace(plan(n), **asked), federation)
    federation.config = MethodType(lambda self: dataclasses.replace(config(), allow_secure_sum=3), federation)
    return anew(federation)


def anew(federation: Any) -> Any:
    """As after a kill: nothing is there but what is on the disk."""
    parts = SharedParts(federation.shared)
    federation.clients = SimulatedClients(federation.config(), parts, federation.ledger)
    return federation


def sums(grid: Any, federation: Any, server_round: int = 1) -> list[dict[str, Any]]:
    """What the server gets of a round: sums in integers, and no single share."""
    replies = list(grid.send_and_receive(federation.messages(server_round)))
    assert all(GROUP in one.content for one in replies if REFUSAL not in one.content)
    assert not any(one.content["arrays"] for one in replies if REFUSAL not in one.content)
    return [
        {k: array.numpy() for k, array in one.content[SUM].items()} for one in replies if SUM in one.content
    ]


def total(found: list[dict[str, Any]]) -> Any:
    assert found
    return sum(flat(one) for one in found)


def test_the_members_masks_open_to_the_sum_that_a_simulation_adds_up(
    fake_ray: Any, federation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the simulated clients give, through every stage of the protocol, to the bit."""
    parts, update = list[Any](), TrainingActor._train

    def keeping(self: Any, item: Any) -> Any:
        made = update(self, item)
        parts.append(flat({name: array.copy() for name, array in as_arrays(made).items()}))
        return made

    monkeypatch.setattr(TrainingActor, "_train", keeping)
    plain = total(sums(secure(federation).grid_of(fake_ray, 3), federation))
    assert plain.any()
    played = Played(head(CLIENTS, 0, numbers=len(plain)))
    played.integers = parts
    np.testing.assert_array_equal(played.until_masked().total(), plain)


def test_a_client_that_fails_is_in_no_sum(
    fake_ray: Any, federation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = TrainingActor._train

    def failing(self: Any, item: Any) -> Any:
        if item.client == "3":
            raise ConfigError("no")
        return update(self, item)

    monkeypatch.setattr(TrainingActor, "_train", failing)
    grid = secure(federation, dropouts=1).grid_of(fake_ray, 1)
    found = [one.content for one in grid.send_and_receive(federation.messages())]
    assert sum(REFUSAL in one for one in found) == 1
    (group,) = [one[GROUP] for one in found if SUM in one]
    assert len(group["messages"]) == CLIENTS - 1


def test_a_round_that_was_paid_for_and_begun_again_gives_the_same_integers(
    fake_ray: Any, federation: Any
) -> None:
    """After a kill, from the keys in the ledger: one noise, paid for once. Another round has another."""
    secure(federation)
    first = total(sums(federation.grid_of(fake_ray, 2), federation))
    paid = federation.steps()
    again = total(sums(anew(federation).grid_of(fake_ray, 1), federation))
    np.testing.assert_array_equal(again, first)
    assert federation.steps() == paid
    assert (total(sums(federation.grid_of(fake_ray, 1), federation, 2)) != first).any()
