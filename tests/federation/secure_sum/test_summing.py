"""The sum is that of the survivors, to the bit, whoever drops out when; or it is lost, with a reason."""

import copy
from itertools import product

import numpy as np
import pytest
from federation.secure_sum.attempts import LIMITS, Integers, Played, head, without

from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.secure_sum.messages import Advertisement
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.summing import SecureSum, SumLostError
from fl_dp.federation.secure_sum.terms import KEYS_PURPOSE, keys_body

STAGES = (3, 4, 5, None)  # at which a member is gone; None: it stays


@pytest.mark.parametrize(("clients", "dropouts"), [(3, 0), (4, 1), (10, 4)])
def test_the_sum_is_the_plain_sum_to_the_bit(clients, dropouts):
    played = Played(head(clients, dropouts, numbers=40_000)).until_masked()
    assert (played.total() == played.clear_sum(range(clients))).all()
    assert played.server.dropped == {}


def test_sums_beyond_the_range_wrap_as_the_integers_do():
    played = Played(head(3, 0))
    played.integers = [np.full(50, 2**62, np.int64)] * 3
    played.until_masked()
    assert (played.total() == np.int64(3 * 2**62 - 2**64)).all()


@pytest.mark.parametrize(
    ("clients", "dropouts"), [(4, 0), (5, 1), pytest.param(6, 2, marks=pytest.mark.slow)]
)
def test_every_pattern_of_drop_outs_is_the_sum_of_the_others_or_lost(clients, dropouts):
    """All that can be gone from stage 3 on; K = 5 cannot have d = 2, so K = 6 has it."""
    proposed = head(clients, dropouts, numbers=20)
    agreed = Played(proposed)
    agreed.until_shared()
    accepted = copy.deepcopy(agreed.server)
    answers = [agreed.answer_of(place) for place in range(clients)]
    states = [member.to_bytes() for member in agreed.members]
    sums = lost = 0
    for pattern in product(STAGES, repeat=clients):
        played = copy.copy(agreed)
        played.server = copy.deepcopy(accepted)
        played.members = [
            Participant.from_bytes(state, key) for state, key in zip(states, agreed.keys, strict=True)
        ]
        summed = [place for place, stage in enumerate(pattern) if stage != 3]
        confirmed = [place for place in summed if pattern[place] != 4]
        opened = [place for place in confirmed if pattern[place] != 5]
        for place in summed:
            played.server.take_masked(played.names[place], answers[place].to_fields())
        enough = len(summed) >= clients - dropouts and len(opened) >= proposed.threshold
        last_stages = clients, confirmed, opened
        if enough:
            sums += 1
            assert (total_of(played, *last_stages) == played.clear_sum(summed)).all(), pattern
            continue
        lost += 1
        with pytest.raises(SumLostError, match="needed") as error:
            total_of(played, *last_stages)
        assert error.value.paid, pattern
    assert sums > clients
    assert lost > 0


def total_of(played: Played, clients: int, confirmed: list[int], opened: list[int]) -> Integers:
    played.confirm(without(clients, confirmed))
    played.open(without(clients, opened))
    return played.server.total()


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("gone", range(5))
def test_a_member_gone_before_anything_is_paid_means_a_new_attempt(stage, gone):
    played = Played(head(5))
    played.advertise([gone] if stage == 1 else [])
    if stage == 2:
        played.share([gone])
    ask = {1: played.server.terms, 2: lambda: played.server.inbox(played.names[0])}[stage]
    with pytest.raises(SumLostError, match=f"client {gone}: it did not answer") as error:
        ask()
    assert not error.value.paid
    assert played.server.here() == [name for name in played.names if name != played.names[gone]]


@pytest.mark.parametrize(
    "fields", [{}, {"vector": b"1234567"}, {"vector": bytes(8)}, {"vector": bytes(400), "more": 1}]
)
def test_a_malformed_vector_is_a_drop_out(fields: dict[str, object]):
    played = Played(head(5))
    played.until_shared()
    played.mask([2])
    played.server.take_masked(played.names[2], fields)
    assert (played.total([2]) == played.clear_sum([0, 1, 3, 4])).all()
    assert list(played.server.dropped) == [played.names[2]]


def test_answers_of_no_member_a_second_and_a_late_vector_change_nothing():
    played = Played(head(5)).until_masked([2])
    again, late = played.integers[0].tobytes(), played.integers[2].tobytes()
    played.server.take_masked(played.names[0], {"vector": again})
    played.server.take_masked("f" * 64, {"vector": again})
    played.confirm()
    played.server.take_masked(played.names[2], {"vector": late})
    played.open()
    assert (played.server.total() == played.clear_sum([0, 1, 3, 4])).all()


@pytest.mark.parametrize("take", ["take_advertisement", "take_sharing", "take_confirmation", "take_opening"])
def test_a_malformed_answer_is_a_reason_and_no_exception(take):
    played = Played(head(5)).until_masked()
    getattr(played.server, take)(played.names[1], {"nonsense": 1})
    assert "fields" in played.server.dropped[played.names[1]]


def test_keys_that_nobody_signed_or_that_are_anothers_are_a_drop_out():
    played = Played(head(5))
    first, _, third, *_ = (Participant.begin(played.head, LIMITS, key)[1] for key in played.keys)
    played.server.take_advertisement(played.names[0], first.to_fields())
    played.server.take_advertisement(played.names[1], third.to_fields())
    assert "not signed" in played.server.dropped[played.names[1]]
    keys = (first.mask_key, third.share_key, third.seed_key)
    signature = played.keys[2].sign(KEYS_PURPOSE, keys_body(played.head, *keys))
    played.server.take_advertisement(played.names[2], Advertisement(*keys, signature).to_fields())
    assert "somebody else's" in played.server.dropped[played.names[2]]


def test_wrong_shares_of_openers_lose_the_sum_and_never_give_a_wrong_one():
    """All keys fail then, and the words name those who opened them, the liar among them."""
    played = Played(head(5)).until_masked()
    played.confirm()
    lie(played, {1})
    before = played.server._total.copy()
    with pytest.raises(SumLostError, match=r"one of those who opened them lied: .*'client 1'") as error:
        played.server.total()
    assert error.value.paid
    assert played.server.suspected == tuple(f"client {place}" for place in range(5))
    assert (played.server._total == before).all()  # not half open


def lie(played: Played, liars: set[int]) -> None:
    confirmations = played.server.confirmations()
    for place in confirmations.places:
        fields = played.members[place].open(confirmations).to_fields()
        if place in liars:
            fields["shares"] = [bytes(31) + b"\1"] * played.head.clients
        played.server.take_opening(played.names[place], fields)


def test_numbers_that_make_no_secure_sum_are_refused_at_once():
    names = dict.fromkeys(Played(head(5)).names, "client")
    with pytest.raises(DeclinedError, match="no threshold is above"):
        SecureSum(head(5, 2), names)
    with pytest.raises(ConfigError, match="5 clients with 4 sites"):
        SecureSum(head(5), dict(list(names.items())[:4]))


def test_lies_at_each_stage_are_that_members_drop_out():
    """A wrong agreement, too few key shares, a wrong confirmation, no key shares at the end."""
    played = Played(head(5))
    played.advertise()
    for place, words in ((0, "has not signed the terms"), (1, "3 key shares, expected 4")):
        server = copy.deepcopy(played.server)
        member = Participant.from_bytes(played.members[place].to_bytes(), played.keys[place])
        fields = member.share(server.terms(), LIMITS, played.roster).to_fields()
        lie = {"agreement": bytes(64)} if place == 0 else {"ciphertexts": [bytes(92)] * 3}
        server.take_sharing(played.names[place], fields | lie)
        assert words in server.dropped[played.names[place]]
    played.share()
    played.mask()
    played.server.survivors()
    played.server.take_confirmation(played.names[0], {"signature": bytes(64)})
    assert "has not signed the survivors" in played.server.dropped[played.names[0]]
    played.confirm([0])
    confirmed = copy.deepcopy(played.server)
    for shares in ([b"\xff" * 32] * 5, [bytes(32)] * 4):
        played.server = copy.deepcopy(confirmed)
        played.server.take_opening(played.names[1], {"shares": shares})
        assert "no key shares of all members" in played.server.dropped[played.names[1]]
    played.server = confirmed
    played.open()
    assert (played.server.total() == played.clear_sum(range(5))).all()
