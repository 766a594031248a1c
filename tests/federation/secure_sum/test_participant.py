"""A member answers each stage once, in order, from bytes, and forgets what it needs no more."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from federation.secure_sum.attempts import LIMITS, Played, head, looks_uniform, words

from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.secure_sum.messages import Confirmations, Inbox, Masked, Survivors
from fl_dp.federation.secure_sum.participant import Participant

STAGES = ("begun", "shared", "accepted", "masked", "confirmed", "ended")
CALLS: dict[str, Callable[[Played, Participant], Any]] = {
    "begun": lambda played, member: member.share(played.server.terms(), LIMITS, played.roster),
    "shared": lambda played, member: member.accept(played.server.inbox(played.names[0])),
    "accepted": lambda played, member: member.mask(played.integers[0]),
    "masked": lambda played, member: member.confirm(played.server.survivors()),
    "confirmed": lambda played, member: member.open(played.server.confirmations()),
}


Attempt = tuple[Played, dict[str, bytes]]


@pytest.fixture(scope="module")
def played() -> Attempt:
    """A whole attempt, and the first member's bytes at each stage."""
    played, states = Played(head(5, numbers=2000)), {}
    for stage, go_on in (
        ("begun", played.advertise),
        ("shared", played.share),
        ("masked", played.mask),
        ("confirmed", played.confirm),
        ("ended", played.open),
    ):
        go_on()
        states[stage] = played.members[0].to_bytes()
    member = Participant.from_bytes(states["shared"], played.keys[0])
    member.accept(played.server.inbox(played.names[0]))
    return played, states | {"accepted": member.to_bytes()}


@pytest.mark.parametrize("at", STAGES)
@pytest.mark.parametrize("asked", CALLS)
def test_each_stage_once_and_in_order(played, at, asked):
    game, states = played
    member = Participant.from_bytes(states[at], game.keys[0])
    if at == asked:
        CALLS[asked](game, member)
    else:
        with pytest.raises(DeclinedError, match=f"out of order: this client is at '{at}'"):
            CALLS[asked](game, member)
        assert secrets_in(member) == (set(), set())
        with pytest.raises(DeclinedError, match="at 'ended'"):
            CALLS[at if at in CALLS else asked](game, member)


def test_secrets_are_forgotten_as_early_as_can_be(played):
    everybody = {str(place) for place in range(5)}
    expected = {
        "begun": ({"seed", "mask key", "share key"}, set()),
        "shared": ({"seed", "mask key", "share key"}, {"0"}),
        "accepted": ({"seed", "mask key"}, everybody),
        "masked": (set(), everybody),
        "confirmed": (set(), everybody),
        "ended": (set(), set()),
    }
    for stage, state in played[1].items():
        assert secrets_in(Participant.from_bytes(state, played[0].keys[0])) == expected[stage]


def secrets_in(member: Participant) -> tuple[set[str], set[str]]:
    table = json.loads(member.to_bytes())
    return set(table["secrets"]), set(table["shares"])


def test_bytes_of_another_version_or_damaged_are_refused(played):
    game, states = played
    other = json.loads(states["masked"]) | {"version": 1}
    for content in (b"", b"[]", b"{}", states["masked"][:-2], json.dumps(other).encode()):
        with pytest.raises(ConfigError, match=r"[Nn]o readable state|of version 1"):
            Participant.from_bytes(content, game.keys[0])


def test_a_masked_vector_looks_uniform_and_the_callers_integers_stay(played):
    game, states = played
    mine = np.zeros(2000, np.int64)
    masked = Participant.from_bytes(states["accepted"], game.keys[0]).mask(mine)
    assert looks_uniform(words(masked))
    assert not mine.any()


@pytest.mark.parametrize("wrong", [np.zeros(1999, np.int64), np.zeros(2000), np.zeros((2000, 1), np.int64)])
def test_a_vector_of_another_shape_is_not_masked(played, wrong):
    game, states = played
    member = Participant.from_bytes(states["accepted"], game.keys[0])
    with pytest.raises(DeclinedError, match="2000 integers"):
        member.mask(wrong)
    with pytest.raises(DeclinedError, match="ended"):
        member.mask(game.integers[0])


@pytest.mark.parametrize(
    "places", [(0, 1, 2, 3, 3), (1, 0, 2, 3, 4), (0, 1, 2, 3, 5), (0, 1, 2, 3, 4, 99), (-1, 0, 1, 2, 3)]
)
def test_survivors_that_are_not_members_each_once(played, places):
    game, states = played
    with pytest.raises(DeclinedError, match="expected members of it"):
        Participant.from_bytes(states["masked"], game.keys[0]).confirm(Survivors(places))


def test_an_inbox_of_others_is_refused(played):
    game, states = played
    inbox = game.server.inbox(game.names[0])
    for changed in (
        dataclasses.replace(inbox, agreements=inbox.agreements[:-1]),
        dataclasses.replace(inbox, ciphertexts=inbox.ciphertexts[:-1]),
    ):
        member = Participant.from_bytes(states["shared"], game.keys[0])
        with pytest.raises(DeclinedError, match=r"expected (key shares|one) of e"):
            member.accept(changed)
        assert secrets_in(member) == (set(), set())


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Survivors, {"places": [0, 100]}),
        (Survivors, {"places": [0.0]}),
        (Survivors, {"places": [1] * 101}),
        (Survivors, {"places": 3}),
        (Confirmations, {"places": [0], "signatures": [b"short"]}),
        (Inbox, {"agreements": [bytes(64)], "ciphertexts": [bytes(91)]}),
        (Masked, {"vector": b""}),
        (Masked, {"vector": "text"}),
    ],
)
def test_messages_out_of_bounds_are_not_read(kind, fields):
    with pytest.raises(ConfigError, match="impossible"):
        kind.from_fields(fields)
