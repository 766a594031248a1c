"""`--secure`: masks are played, the opened sum is the plain one to the bit, and a difference is said."""

import dataclasses
from types import MethodType
from typing import Any

import numpy as np
import pytest

from fl_dp.errors import ConfigError, FederationError
from fl_dp.federation.secure_sum import participant
from fl_dp.federation.secure_sum.summing import SumLostError
from fl_dp.federation.secure_sum.vector import flat
from fl_dp.federation.wire.messages import REFUSAL
from fl_dp.federation.wire.partial_sums import GROUP, SUM
from fl_dp.records import RoundPlan
from fl_dp.simulation.actor.shared_data import SharedParts
from fl_dp.simulation.actor.training_actor import TrainingActor
from fl_dp.simulation.clients import SimulatedClients
from fl_dp.simulation.masked_sum import MaskedSums

CLIENTS, PLAN = 12, RoundPlan("run", 1, "linear", 1, 8, 0.5, 0.0, 2.0, 1.0)
WEIGHTS = {"b": np.zeros(3, np.float32), "a": np.ones((2, 4), np.float32)}


def parts(count: int) -> list[dict[str, Any]]:
    """Of members; each number as large as one may be."""
    random = np.random.default_rng(3)
    return [
        {name: random.integers(-(2**55), 2**55, one.shape, np.int64) for name, one in WEIGHTS.items()}
        for _ in range(count)
    ]


def plans(dropouts: int) -> list[RoundPlan]:
    """Of five members."""
    one = dataclasses.replace(PLAN, shares=4 - dropouts)
    return [dataclasses.replace(one, expected_batch_size=8 + k) for k in range(5)]


@pytest.mark.parametrize(("trained", "dropouts"), [(5, 0), (5, 1), (4, 1)])
def test_the_opened_sum_is_the_plain_one(trained, dropouts):
    """Of five members, of whom one may have failed to train."""
    given = parts(trained)
    opened = MaskedSums(dropouts, 1).opened(plans(dropouts), WEIGHTS, given)
    for name in WEIGHTS:
        assert opened[name].dtype == np.int64
        np.testing.assert_array_equal(opened[name], sum(part[name] for part in given))


def test_too_few_members_are_a_sum_that_is_lost_and_paid_for():
    with pytest.raises(SumLostError, match="3 vectors, 4 are needed") as caught:
        MaskedSums(1, 1).opened(plans(1), WEIGHTS, parts(3))
    assert caught.value.paid


def wrong(self: Any, vector: Any, real: Any = participant.Participant.mask) -> Any:
    """A member whose mask is off in one number."""
    vector = vector.copy()
    vector[4] += 1
    return real(self, vector)


def both_add(site: str, other: str) -> int:
    """Masks that do not cancel."""
    return 1


@pytest.mark.parametrize(
    ("where", "name", "fault", "words"),
    [
        (participant.Participant, "mask", wrong, "1 of 11 numbers differ, number 4 first"),
        (participant.masks, "pair_sign", both_add, "11 of 11 numbers differ"),
    ],
)
def test_a_wrong_mask_is_noticed(monkeypatch, where, name, fault, words):
    monkeypatch.setattr(where, name, fault)
    with pytest.raises(FederationError, match=words):
        MaskedSums(0, 1).opened(plans(0), WEIGHTS, parts(5))


# In a simulation.


def secure(federation: Any, noise: float = 1.0, dropouts: int = 0) -> Any:
    """The federation, whose plans ask for one step into a secure sum."""
    plan, config = federation.plan, federation.config
    asked = {"steps": 1, "shares": CLIENTS - dropouts - 1, "noise_multiplier": noise}
    federation.plan = MethodType(lambda self, n=1: dataclasses.replace(plan(n), **asked), federation)
    federation.config = MethodType(
        lambda self: dataclasses.replace(config(), allow_secure_sum=True), federation
    )
    return anew(federation)


def anew(federation: Any) -> Any:
    """As after a kill: nothing is there but what is on the disk."""
    parts = SharedParts(federation.shared)
    federation.clients = SimulatedClients(federation.config(), parts, federation.ledger)
    return federation


def grid_of(fake: Any, federation: Any, size: int, masks: MaskedSums | None = None) -> Any:
    grid = federation.grid_of(fake, size)
    grid._masks = masks
    return grid


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


def test_a_simulation_opens_the_sum_that_it_adds_up_in_the_clear(fake_ray, two_federations):
    clear, masked = (secure(one) for one in two_federations)
    plain = total(sums(grid_of(fake_ray, clear, 3), clear))
    (opened,) = sums(grid_of(fake_ray, masked, 2, MaskedSums(0, 1)), masked)
    np.testing.assert_array_equal(flat(opened), plain)
    assert plain.any()
    assert masked.steps() == clear.steps()
    assert masked.work[-1].masks
    assert not clear.work[-1].masks


def test_a_difference_ends_the_simulation(fake_ray, two_federations, monkeypatch):
    federation = secure(two_federations[0])
    monkeypatch.setattr(participant.Participant, "mask", wrong)
    with pytest.raises(FederationError, match="--secure: the opened sum is not the plain one"):
        sums(grid_of(fake_ray, federation, 2, MaskedSums(0, 1)), federation)


@pytest.mark.parametrize("dropouts", [0, 1])
def test_a_client_that_fails_drops_out_before_it_masks(fake_ray, two_federations, monkeypatch, dropouts):
    federation = secure(two_federations[0], dropouts=dropouts)
    update = TrainingActor._update

    def failing(self: Any, item: Any, *, together: bool) -> Any:
        if item.client == "3":
            raise ConfigError("no")
        return update(self, item, together=together)

    monkeypatch.setattr(TrainingActor, "_update", failing)
    grid = grid_of(fake_ray, federation, 2, MaskedSums(dropouts, 1))
    replies = list(grid.send_and_receive(federation.messages()))
    found = [one.content for one in replies]
    assert sum(REFUSAL in one for one in found) == 1
    assert sum(SUM in one for one in found) == dropouts
    lost = {str(one[GROUP].get("lost", "")) for one in found if GROUP in one}
    assert any("11 vectors, 12 are needed" in one for one in lost) is (not dropouts)


@pytest.mark.parametrize("masks", [None, MaskedSums(0, 1)], ids=["in the clear", "masked"])
def test_a_round_that_was_paid_for_and_begun_again_gives_the_same_integers(
    fake_ray, federation, masks: MaskedSums | None
):
    """After a kill, from the keys in the ledger: one noise, paid for once. Another round has another."""
    secure(federation)
    first = total(sums(grid_of(fake_ray, federation, 2, masks), federation))
    paid = federation.steps()
    again = total(sums(grid_of(fake_ray, anew(federation), 1, masks), federation))
    np.testing.assert_array_equal(again, first)
    assert federation.steps() == paid
    assert (total(sums(grid_of(fake_ray, federation, 1, masks), federation, 2)) != first).any()
