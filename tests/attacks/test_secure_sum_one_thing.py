"""Property 2: everybody masks for the same thing, or nobody does.

A server with all powers says one thing to one honest client and another to the rest, replays what was signed
before, or swaps keys. Each time an honest client declines before it has paid.
"""

import dataclasses
from typing import Any

import pytest
from federation.secure_sum.attempts import LIMITS, Played, head

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum.messages import AGREEMENT_PURPOSE, Advertisement
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.terms import KEYS_PURPOSE, Head, Member, Terms, keys_body

VICTIM, COLLUDER = 1, 3
OTHER: dict[str, Any] = {
    "run": "other",
    "server_round": 2,
    "attempt": "0" * 32,
    "plan": "0" * 64,
    "weights": "0" * 64,
    "max_grad_norm": 1e-6,
    "sensitivity": 1.1,
    "noise_multiplier": 1e-6,
    "spacing": 2.0**-30,
    "levels": 4,
    "numbers": 49,
    "share_deviation": 3.0,
    "sampler": "other",
    "dropouts": 0,
    "colluders": 2,
    "threshold": 5,
}


def begun(proposed: Head, place: int) -> tuple[Participant, Advertisement, Member]:
    game = Played(proposed)
    member, answer = Participant.begin(proposed, LIMITS, game.keys[place])
    row = (answer.mask_key, answer.share_key, answer.seed_key, answer.signature)
    return member, answer, Member(f"client {place}", game.names[place], *row)


def share(member: Participant, terms: Terms) -> Any:
    return member.share(terms, LIMITS, {one.site for one in terms.members})


def advertised() -> tuple[Played, list[Member]]:
    """An attempt after stage 1, and the members as its server would name them."""
    played = Played(head(5))
    played.advertise()
    return played, list(played.server.terms().members)


@pytest.mark.parametrize("name", OTHER)
def test_one_client_is_told_another_head(name: str) -> None:
    """Tiny C to the others, another c, other weights: their keys are signed for what they were told."""
    true = head(5, threshold=5, dropouts=0, colluders=1, share_deviation=2.0)
    false = dataclasses.replace(true, **{name: OTHER[name]})
    if name in ("dropouts", "threshold"):
        true = dataclasses.replace(true, dropouts=1, threshold=4)
        false = dataclasses.replace(true, dropouts=0, threshold=5 if name == "threshold" else 4)
    heads = [true if place == VICTIM else false for place in range(5)]
    members = [begun(one, place) for place, one in enumerate(heads)]
    for place in (VICTIM, 0):
        terms = Terms(heads[place], tuple(row for *_, row in members))
        with pytest.raises(DeclinedError, match="has not signed its keys for this attempt"):
            share(members[place][0], terms)


def test_a_head_that_is_not_the_one_of_stage_1() -> None:
    """Colluders alone would sign for it; the honest client keeps to what it made keys for."""
    true, false = head(3, 0), head(3, 0, weights="0" * 64)
    member, _, own = begun(true, 0)
    rows = (begun(false, place)[2] for place in (1, 2))
    signed = begun(false, 0)[2]
    with pytest.raises(DeclinedError, match="differ from those this client made keys for"):
        share(member, Terms(false, (signed, *rows)))
    assert own.is_signed(true)


def test_two_groups_with_members_of_their_own() -> None:
    """Each half is given other keys of the colluder: everybody signs, and not the same."""
    played = Played(head(5))
    played.advertise()
    one = played.server.terms()
    colluder = begun(played.head, COLLUDER)[2]
    two = Terms(one.head, (*one.members[:COLLUDER], colluder, *one.members[COLLUDER + 1 :]))
    for place, member in enumerate(played.members):
        answer = share(member, two if place < 2 else one)
        played.server._sharings[played.names[place]] = answer  # this server forgets to check
    twice = played.keys[COLLUDER].sign(AGREEMENT_PURPOSE, two.digest)  # its site signs whatever is asked
    for place in (0, 4):
        inbox = played.server.inbox(played.names[place])
        agreements = list(inbox.agreements)
        agreements[COLLUDER] = twice if place == 0 else agreements[COLLUDER]
        with pytest.raises(DeclinedError, match="has not agreed to the same terms"):
            played.members[place].accept(dataclasses.replace(inbox, agreements=tuple(agreements)))


@pytest.mark.parametrize("what", ["keys", "agreement"])
def test_signatures_of_an_earlier_attempt(what: str) -> None:
    earlier, now = Played(head(5)), Played(head(5))
    for game in (earlier, now):
        game.advertise()
    earlier.share()
    before, terms = earlier.server.terms().members, now.server.terms()
    if what == "keys":
        replayed = Terms(terms.head, (before[0], *terms.members[1:]))
        with pytest.raises(DeclinedError, match="member 0 has not signed its keys"):
            share(now.members[VICTIM], replayed)
        return
    now.share()
    inbox = now.server.inbox(now.names[VICTIM])
    old = earlier.server.inbox(earlier.names[VICTIM])
    for place in range(5):
        agreements = list(inbox.agreements)
        agreements[place] = old.agreements[place]
        changed = dataclasses.replace(inbox, agreements=tuple(agreements))
        with pytest.raises(DeclinedError, match=f"'client {place}' has not agreed"):
            Participant.from_bytes(now.members[VICTIM].to_bytes(), now.keys[VICTIM]).accept(changed)


def test_a_whole_attempt_is_played_to_a_client_again() -> None:
    """The same head, the others' old keys and agreements: its own keys are new, so is what must be signed."""
    first = Played(head(5))
    first.advertise()
    first.share()
    again, answer, row = begun(first.head, VICTIM)
    old = first.server.terms()
    with pytest.raises(DeclinedError, match="other keys than this client's own"):
        share(Participant.from_bytes(again.to_bytes(), first.keys[VICTIM]), old)
    share(again, Terms(first.head, (*old.members[:VICTIM], row, *old.members[VICTIM + 1 :])))
    with pytest.raises(DeclinedError, match="has not agreed to the same terms"):
        again.accept(first.server.inbox(first.names[VICTIM]))
    assert answer.mask_key != old.members[VICTIM].mask_key


@pytest.mark.parametrize(
    "changes",
    [
        {"mask_key": b"\2" + b"\7" * 32},
        {"share_key": b"\2" + b"\7" * 32},
        {"seed_key": b"\2" + b"\7" * 32},
        {"mask_key": "share_key", "share_key": "mask_key"},
    ],
    ids=["mask key", "share key", "seed", "swapped"],
)
@pytest.mark.parametrize("whose", [VICTIM, 0], ids=["own", "another's"])
def test_swapped_keys(changes: dict[str, Any], whose: int) -> None:
    played, members = advertised()
    values = {
        name: getattr(members[whose], one) if isinstance(one, str) else one for name, one in changes.items()
    }
    members[whose] = dataclasses.replace(members[whose], **values)
    with pytest.raises(DeclinedError, match="has not signed its keys"):
        share(played.members[VICTIM], Terms(played.head, tuple(members)))


def test_a_colluder_with_an_honest_clients_key() -> None:
    played, members = advertised()
    negative = bytes([members[0].mask_key[0] ^ 1]) + members[0].mask_key[1:]  # agrees on the same secrets
    for stolen in (*members[0].keys, negative):
        keys = (stolen, members[COLLUDER].share_key, members[COLLUDER].seed_key)
        members[COLLUDER] = signed(played, COLLUDER, keys)
        again = Participant.from_bytes(played.members[VICTIM].to_bytes(), played.keys[VICTIM])
        with pytest.raises(DeclinedError, match="hold a key twice"):
            share(again, Terms(played.head, tuple(members)))


@pytest.mark.parametrize("which", ["mask", "share"])
def test_a_colluders_key_that_fails_only_later_is_found_before_paying(which: str) -> None:
    played, members = advertised()
    good = members[COLLUDER]
    zero = bytes(33)
    keys = (zero, good.share_key) if which == "mask" else (good.mask_key, zero)
    members[COLLUDER] = signed(played, COLLUDER, (*keys, good.seed_key))
    with pytest.raises(DeclinedError, match="'client 3' has an invalid key for a secure sum"):
        share(played.members[VICTIM], Terms(played.head, tuple(members)))


def signed(played: Played, place: int, keys: tuple[bytes, bytes, bytes]) -> Member:
    signature = played.keys[place].sign(KEYS_PURPOSE, keys_body(played.head, *keys))
    return Member(f"client {place}", played.names[place], *keys, signature)
