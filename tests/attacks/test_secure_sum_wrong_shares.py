"""A member that deals or opens wrong key shares: it makes a sum fail, and shows nothing of anybody else.

Nobody proves that shares fit. What they give is held against the public keys that all members have signed.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from federation.secure_sum.attempts import LIMITS, Played, carried, head
from federation.secure_sum.sum_rounds import PLAN, Federation, total_of
from flwr.app import ConfigRecord, RecordDict
from opened import told

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.keys import sealed, unsealed
from fl_dp.federation.secure_sum.participant import sealing_key
from fl_dp.federation.secure_sum.summing import SumLostError

VICTIM, LIAR, CLIENTS = 1, 3, 5
Bad = Callable[[bytes], bytes]  # of the pair that was to be dealt
SMALL = bytes(31) + b"\1"


def shared(bad: Bad, at: tuple[int, ...] = (VICTIM,)) -> Played:
    """After stage 2; with `bad` in the place of what the liar has sealed for the members at `at`."""
    played = Played(head(CLIENTS))
    played.advertise()
    terms = played.server.terms()
    for place, member in enumerate(played.members):
        answer = member.share(carried(terms), LIMITS, played.roster)
        if place == LIAR:
            changed = list(answer.ciphertexts)
            for one in at:
                key = sealing_key(member._state.secrets["share key"], terms, one, LIAR, one)
                number = one - (one > LIAR)
                pair = bad(unsealed(key, changed[number], terms.digest) or b"")
                changed[number] = sealed(key, pair, terms.digest) if pair else bytes(92)
            answer = dataclasses.replace(answer, ciphertexts=tuple(changed))
        played.server.take_sharing(played.names[place], answer.to_fields())
    return played


@pytest.mark.parametrize(
    "bad",
    [lambda _: b"", lambda pair: pair[:32] + b"\xff" * 32],
    ids=["not sealed", "no number of the group"],
)
def test_who_cannot_read_its_shares_names_the_dealer_and_masks_nothing(bad: Bad) -> None:
    """Before it has drawn or paid for anything; the others' sum is opened without it."""
    played = shared(bad)
    member = played.members[VICTIM]
    with pytest.raises(DeclinedError, match=r"'client 3' dealt .* cannot be read: this member is suspected"):
        member.accept(played.server.inbox(played.names[VICTIM]))
    with pytest.raises(DeclinedError, match="at 'ended'"):
        member.mask(played.integers[VICTIM])
    assert not member._state.secrets
    assert not member._state.shares
    played.mask([VICTIM])
    assert (played.total() == played.clear_sum([0, 2, 3, 4])).all()


OTHERS = tuple(place for place in range(CLIENTS) if place != LIAR)


@pytest.mark.parametrize("at", [(VICTIM,), OTHERS], ids=["to one member", "to all"])
@pytest.mark.parametrize("gone", [(), (LIAR,)], ids=["its seed", "its mask key"])
def test_shares_of_another_secret_lose_the_sum_and_name_the_dealer(
    gone: tuple[int, ...], at: tuple[int, ...]
) -> None:
    """Never a wrong sum, and not one mask comes off."""
    played = shared(lambda _: 2 * SMALL, at)
    played.mask(gone)
    played.confirm()
    before = played.server._total.copy()
    confirmations = played.server.confirmations()
    for place in confirmations.places if gone else OTHERS:
        fields = played.members[place].open(confirmations).to_fields()
        played.server.take_opening(played.names[place], fields)
    with pytest.raises(SumLostError, match="key shares that 'client 3' dealt open no key") as error:
        played.server.total()
    assert error.value.paid
    assert played.server.suspected == ("client 3",)
    assert (played.server._total == before).all()


@pytest.mark.parametrize("gone", [(), (VICTIM,), (LIAR,)], ids=["nobody", "a victim", "the liar"])
def test_wrong_shares_bring_nobody_elses_second_key_nearer(gone: tuple[int, ...]) -> None:
    """Whatever the liar dealt, and with all that it knows: of each other member one kind of shares is opened,
    and of the other kind the liar has its own one, fewer than the threshold."""
    played = shared(lambda _: 2 * SMALL, OTHERS)
    played.mask(gone)
    played.confirm()
    confirmations, survivors = played.server.confirmations(), played.server.survivors().places
    dealt = {place: [told(played, place, one) for one in range(CLIENTS)] for place in survivors}
    openings = {place: played.members[place].open(confirmations) for place in confirmations.places}
    assert len(openings) >= played.head.threshold
    for victim in OTHERS:
        hidden = 1 if victim in survivors else 0
        opened = {
            place for place, one in openings.items() if one.shares[victim] == dealt[place][victim][hidden]
        }
        assert len(opened | {LIAR}) == 1 < played.head.threshold


def said(content: RecordDict, **changes: Any) -> RecordDict:
    return RecordDict({**content, wire.SAID: ConfigRecord({**content[wire.SAID], **changes})})


def unreadable(number: int, stage: str, answered: RecordDict) -> RecordDict:
    """Member 0 deals what nobody can read: no other masks."""
    return said(answered, ciphertexts=[bytes(92)] * 4) if (number, stage) == (0, wire.SHARE) else answered


def opens_others(number: int, stage: str, answered: RecordDict) -> RecordDict:
    return said(answered, shares=[SMALL] * 5) if (number, stage) == (0, wire.OPEN) else answered


@pytest.mark.parametrize("lie", [unreadable, opens_others])
def test_a_liar_costs_a_round_and_no_more(lie: Any, tmp_path: Any) -> None:
    federation = Federation(tmp_path, dropouts=0, epsilon=100.0)
    replies, _ = federation.round(lie=lie)
    assert total_of(replies) is None
    paid = [len(member.paid()) for member in federation.members]
    if lie is unreadable:
        assert paid[1:] == [0] * 4
        assert "'site-0' dealt" in replies[1]["refusal"]["reason"]
    else:
        assert paid == [1] * 5
        lost = [one["group"].get("lost", "") for one in replies.values() if isinstance(one, RecordDict)]
        assert any(all(f"'site-{k}'" in one for k in range(5)) and "who opened them" in one for one in lost)
    replies, _ = federation.round(plan=dataclasses.replace(PLAN, server_round=2))
    assert total_of(replies) is not None
