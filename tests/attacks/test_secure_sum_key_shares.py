"""A member that deals bad key shares, or complains of good ones, costs an attempt that nobody has paid for.

And a server gets nobody to mask whose key shares, or whose neighbours', have not been found to fit.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from federation.secure_sum.attempts import LIMITS, Played, carried, head
from federation.secure_sum.sum_rounds import PLAN, Federation, Wire, total_of
from flwr.app import ConfigRecord, RecordDict

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum import participant, wire
from fl_dp.federation.secure_sum.key_shares import deal
from fl_dp.federation.secure_sum.keys import fresh_secret, sealed, unsealed
from fl_dp.federation.secure_sum.messages import CHECKED_PURPOSE, Checked, Complaint
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.sealing import about_secret, sealing_key
from fl_dp.federation.secure_sum.summing import SumLostError

VICTIM, LIAR, CLIENTS = 1, 3, 5


Bad = Callable[[bytes], bytes]  # of the pair that was to be dealt


def shared(bad: Bad | None = None, at: int = VICTIM) -> Played:
    """After stage 2; with `bad` in the place of what the liar has sealed for the member at `at`."""
    played = Played(head(CLIENTS))
    played.advertise()
    terms = played.server.terms()
    for place, member in enumerate(played.members):
        answer = member.share(carried(terms), LIMITS, played.roster)
        if place == LIAR and bad is not None:
            key = sealing_key(member._state.secrets["share key"], terms, at, LIAR, at)
            changed, number = list(answer.ciphertexts), at - (at > LIAR)
            pair = bad(unsealed(key, changed[number], terms.digest) or b"")
            changed[number] = sealed(key, pair, terms.digest) if pair else bytes(92)
            answer = dataclasses.replace(answer, ciphertexts=tuple(changed))
        played.server.take_sharing(played.names[place], answer.to_fields())
    return played


@pytest.mark.parametrize(
    "bad",
    [lambda _: b"", lambda pair: bytes(32) + pair[32:], lambda pair: pair[:32] + b"\xff" * 32],
    ids=["not sealed", "of another seed", "of a mask key, and no share"],
)
def test_a_dealer_of_bad_shares_is_caught_by_whom_it_dealt_them(bad: Bad) -> None:
    played = shared(bad)
    played.check()
    with pytest.raises(SumLostError, match="'client 1' cannot be read or do not fit") as error:
        played.server.checks()
    assert not error.value.paid
    assert list(played.server.caught) == list(played.server.dropped) == [played.names[LIAR]]


@pytest.mark.parametrize("kind", ["seed", "mask key"])
def test_a_dealer_of_another_secret_is_caught_by_the_server(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shares fit each other: with them the sum would be lost after all have paid."""
    played = Played(head(CLIENTS))
    played.advertise()
    terms = played.server.terms()

    def other(secret: bytes, members: int, threshold: int, about: bytes) -> Any:
        return deal(fresh_secret() if about.endswith(kind.encode()) else secret, members, threshold, about)

    for place, member in enumerate(played.members):
        with monkeypatch.context() as patch:
            if place == LIAR:
                patch.setattr(participant, "deal", other)
            answer = member.share(terms, LIMITS, played.roster)
        played.server.take_sharing(played.names[place], answer.to_fields())
    assert list(played.server.caught) == [played.names[LIAR]]
    with pytest.raises(SumLostError, match="does not show that its key shares fit") as error:
        played.server.inbox(played.names[0])
    assert not error.value.paid


def test_a_proof_holds_for_one_secret_of_one_dealer_in_one_attempt() -> None:
    terms = [shared().server.terms() for _ in range(2)]
    abouts = [about_secret(one, dealer, kind) for one in terms for dealer in (0, 1) for kind in ("a", "b")]
    assert len(set(abouts)) == 8


@pytest.mark.parametrize(
    ("key", "words"),
    [("its own", "key shares that fit"), ("another", "does not show"), ("none", "does not show")],
)
def test_who_complains_without_ground_is_caught_itself(key: str, words: str) -> None:
    """Whatever it shows: nobody honest is ever left out for a liar's word."""
    played = shared()
    shown = {"its own": played.members[LIAR]._state.secrets["share key"], "another": fresh_secret()}
    played.check([LIAR])
    played.server.take_check(played.names[LIAR], Complaint(shown.get(key, bytes(32))).to_fields())
    with pytest.raises(SumLostError, match=words) as error:
        played.server.checks()
    assert not error.value.paid
    assert list(played.server.caught) == list(played.server.dropped) == [played.names[LIAR]]


def test_nobody_masks_without_everybodys_word_of_this_attempt() -> None:
    """Forged, of an earlier attempt, of another purpose, somebody else's, withheld: a complaint too."""
    earlier, played = Played(head(CLIENTS)).until_checked(), shared()
    played.check()
    true, digest = played.server.checks(), played.server.terms().digest
    before = played.members[VICTIM].to_bytes()
    for wrong in (
        bytes(64),
        earlier.server.checks().signatures[LIAR],
        played.server.inbox(played.names[0]).agreements[LIAR],
        true.signatures[0],
        played.keys[0].sign(CHECKED_PURPOSE, digest),
    ):
        signatures = list(true.signatures)
        signatures[LIAR] = wrong
        member = Participant.from_bytes(before, played.keys[VICTIM])
        with pytest.raises(DeclinedError, match="'client 3' has not found the key shares"):
            member.accept(dataclasses.replace(true, signatures=tuple(signatures)))
        with pytest.raises(DeclinedError, match="at 'ended'"):
            member.accept(true)
    member = Participant.from_bytes(before, played.keys[VICTIM])
    with pytest.raises(DeclinedError, match="not of 5 members"):
        member.accept(dataclasses.replace(true, signatures=true.signatures[:-1]))


def test_who_complains_says_good_in_no_other_message_and_masks_nothing() -> None:
    """Its share key opens what was dealt: with its word as well a server could go on, and open its vector."""
    played = shared(lambda _: bytes(64))
    inbox = played.server.inbox(played.names[VICTIM])
    member = played.members[VICTIM]
    assert isinstance(member.check(inbox), Complaint)
    for _ in range(2):
        with pytest.raises(DeclinedError, match="at 'ended'"):
            member.check(played.inbox(VICTIM, gauges=inbox.gauges))
    assert not member._state.secrets
    assert not member._state.shares
    other = played.members[0]
    assert isinstance(other.check(played.server.inbox(played.names[0])), Checked)
    assert "share key" not in other._state.secrets  # it cannot complain any more


def said(content: RecordDict, **changes: Any) -> RecordDict:
    return RecordDict({**content, wire.SAID: ConfigRecord({**content[wire.SAID], **changes})})


def bad_shares(number: int, stage: str, answered: RecordDict) -> RecordDict:
    """Member 0 deals what nobody can read."""
    return said(answered, ciphertexts=[bytes(92)] * 4) if (number, stage) == (0, wire.SHARE) else answered


def complains(number: int, stage: str, answered: RecordDict) -> RecordDict:
    if (number, stage) != (0, wire.CHECK):
        return answered
    return RecordDict({**answered, wire.SAID: ConfigRecord(Complaint(fresh_secret()).to_fields())})


@pytest.mark.parametrize("lie", [bad_shares, complains])
def test_a_hostile_member_costs_one_unpaid_attempt_and_is_left_out_of_the_run(
    lie: Any, tmp_path: Any
) -> None:
    federation = Federation(tmp_path, epsilon=100.0)
    replies, below = federation.round(lie=lie)
    assert total_of(replies) is not None
    assert "unpaid" in replies[0]["refusal"]["reason"]
    assert [len(member.paid()) for member in federation.members] == [0, 1, 1, 1, 1]
    assert sum(stage == wire.ADVERTISE for _, stage, _ in below.seen) == 5 + 4
    replies, below = federation.round(plan=dataclasses.replace(PLAN, server_round=2, shares=2))
    assert total_of(replies) is not None
    assert "left out since an earlier attempt" in replies[0]["refusal"]["reason"]
    assert {number for number, *_ in below.seen} == {1, 2, 3, 4}


def test_who_lies_first_at_the_opening_does_not_end_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K = 5, t = 4: its answer is the first of four, and the fifth is still waited for."""

    stages = list[str]()

    def one_by_one(self: Wire, message_ids: Any) -> list[Any]:
        """At the opening; member 0 first."""
        there = set(message_ids) & self._replies.keys()
        there = sorted(there, key=lambda one: self._replies[one].metadata.src_node_id)
        return [self._replies.pop(one) for one in there[: 1 if wire.OPEN in stages else None]]

    monkeypatch.setattr(Wire, "pull_messages", one_by_one)

    def other_shares(number: int, stage: str, answered: RecordDict) -> RecordDict:
        stages.append(stage)
        return said(answered, shares=[bytes(32)] * 5) if (number, stage) == (0, wire.OPEN) else answered

    federation = Federation(tmp_path)
    replies, _ = federation.round(lie=other_shares)
    assert total_of(replies) is not None
    assert sum("report" in one for one in replies.values()) == 5  # it has masked: its vector is in the sum
    assert "not the key shares" in next(iter(federation._grid._left_out.values()))
