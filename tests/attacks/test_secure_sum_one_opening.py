"""Property 3: an attempt is opened for one set of survivors, once.

One input in two sums is one client with its noise alone: their difference. The server tells clients different
survivors, asks twice, counts signatures twice; c colluders sign and tell whatever it likes.
"""

from itertools import product

import numpy as np
import pytest
from federation.secure_sum.attempts import Integers, Played, head, words
from opened import told

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum import masks
from fl_dp.federation.secure_sum.key_shares import secret_of
from fl_dp.federation.secure_sum.limits import checked_shares, least_threshold
from fl_dp.federation.secure_sum.messages import (
    AGREEMENT_PURPOSE,
    SURVIVORS_PURPOSE,
    Confirmations,
    Survivors,
    survivors_body,
)
from fl_dp.federation.secure_sum.participant import Participant

ALL, WITHOUT_0, COLLUDER = Survivors((0, 1, 2, 3, 4)), Survivors((1, 2, 3, 4)), 4


@pytest.mark.parametrize("told_all", list(product([True, False], repeat=3)))
def test_two_sets_of_survivors(told_all: tuple[bool, ...]) -> None:
    """Client 0 is in one set and not in the other; 1, 2 and 3 are told either. Never do both open."""
    played = Played(head(5)).until_masked()
    sets = {0: ALL} | {
        place: ALL if one else WITHOUT_0 for place, one in zip((1, 2, 3), told_all, strict=True)
    }
    signed = {place: played.members[place].confirm(one).signature for place, one in sets.items()}
    opened = set()
    for survivors in (ALL, WITHOUT_0):
        signers = {place: signed[place] for place, one in sets.items() if one is survivors}
        body = survivors_body(played.server.terms().digest, survivors.places)
        signers[COLLUDER] = played.keys[COLLUDER].sign(SURVIVORS_PURPOSE, body)
        confirmations = played.confirmations_of(survivors, signers)
        for place, one in sets.items():
            member = Participant.from_bytes(played.members[place].to_bytes(), played.keys[place])
            if one is survivors and len(signers) >= 4:
                member.open(confirmations)
                opened.add(survivors)
            else:
                with pytest.raises(DeclinedError, match=r"expected at least 4|has not confirmed|by others"):
                    member.open(confirmations)
    assert len(opened) == (0 if sum(told_all) == 1 else 1)  # with the colluder 3 and 3 sign, or 4 do


@pytest.mark.parametrize("clients", range(3, 13))
def test_no_split_of_honest_clients_confirms_two_sets(clients: int) -> None:
    """By counting, for every K up to 12, every c and t that the rules allow."""
    for colluders in range(1, clients - 1):
        least = least_threshold(clients, colluders)
        if least > clients:
            continue
        for threshold in range(least, clients + 1):
            for first in range(clients - colluders + 1):
                second = clients - colluders - first
                assert min(first, second) + colluders < threshold


def sum_of_three(played: Played) -> Integers:
    """K = 10, d = 4, c = 1, t = 6: each honest client is told another four that are gone, never itself.

    Of clients 0 to 6 five are told that it is gone, and the colluder, 9, gives its shares too: their mask
    keys open, and the seeds of 7, 8 and 9. What is left is the sum of these three.
    """
    gone = [{(place + step) % 7 for step in range(1, 5)} for place in range(7)] + [{0, 1, 2, 3}, {4, 5, 6}]
    vectors = [played.answer_of(place) for place in range(10)]
    sets = [Survivors(tuple(set(range(10)) - one)) for one in gone]
    signed = [played.members[place].confirm(one).signature for place, one in enumerate(sets)]
    openings = []
    for place, one in enumerate(sets):
        body = survivors_body(played.server.terms().digest, one.places)
        signers = {place: signed[place], 9: played.keys[9].sign(SURVIVORS_PURPOSE, body)}
        openings.append(played.members[place].open(played.confirmations_of(one, signers)))
    terms, total = played.server.terms(), np.sum([words(vectors[place]) for place in (7, 8, 9)], axis=0)
    for victim, member in enumerate(terms.members):
        left_out = victim < 7
        shares = {
            place: opening.shares[victim]
            for place, opening in enumerate(openings)
            if (victim in gone[place]) == left_out
        } | {9: told(played, 9, victim)[left_out]}
        secret = secret_of(shares, 6)
        if not left_out:
            masks.add_stream(total, masks.own_key(secret, terms.digest, member.site), -1)
            continue
        for other in terms.members[7:]:
            key = masks.pair_key(secret, other.mask_key, terms.digest, member.site, other.site, "")
            masks.add_stream(total, key, -masks.pair_sign(other.site, member.site))
    return total.view(np.int64)


def agreed_of_ten() -> Played:
    played = Played(head(10, 4))
    played.until_shared()
    return played


def test_a_smaller_sum_would_open_without_confirmations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds of key shares alone do not prevent it: each client was told of six survivors or more."""
    monkeypatch.setattr(Participant, "_check_confirmations", lambda *_: None)
    played = agreed_of_ten()
    assert (sum_of_three(played) == played.clear_sum([7, 8, 9])).all()


def test_a_smaller_sum_does_not_open() -> None:
    with pytest.raises(DeclinedError, match="2 confirmations of a secure sum: expected at least 6"):
        sum_of_three(agreed_of_ten())


def test_a_second_confirmation_or_opening_is_refused_and_so_is_all_else() -> None:
    played = Played(head(5)).until_masked()
    played.confirm()
    state = played.members[0].to_bytes()
    for second in (WITHOUT_0, ALL):
        with pytest.raises(DeclinedError, match="out of order"):
            Participant.from_bytes(state, played.keys[0]).confirm(second)
    confirmations = played.server.confirmations()
    played.members[0].open(confirmations)
    for _ in range(2):
        with pytest.raises(DeclinedError, match="this client is at 'ended'"):
            played.members[0].open(confirmations)
    with pytest.raises(DeclinedError, match="this client is at 'ended'"):
        played.members[0].mask(played.integers[0])


def test_one_vector_is_masked_once() -> None:
    """Twice with the same masks, and their difference would be that of two noisy gradients, in the clear."""
    played = Played(head(5))
    played.until_shared()
    played.answer_of(0)
    with pytest.raises(DeclinedError, match="this client is at 'masked'"):
        played.members[0].mask(played.integers[1])


def test_signatures_that_do_not_count() -> None:
    """Twice the same, of another purpose, of another attempt, of who is no survivor, of nobody."""
    other = Played(head(5)).until_masked([0])
    played = Played(head(5)).until_masked([0])
    for game in (other, played):
        game.confirm()
    true, digest = played.server.confirmations(), played.server.terms().digest
    (one, two, three, four), places = true.signatures, true.places
    body = survivors_body(digest, WITHOUT_0.places)
    bad = [
        Confirmations(places[:3], (one, two, three)),
        Confirmations((1, 2, 3, 3), (one, two, three, three)),
        Confirmations(places, (one, two, three, three)),
        Confirmations(places, (one, two, three)),
        Confirmations(places, (one, two, three, other.server.confirmations().signatures[3])),
        Confirmations(places, (one, two, three, played.keys[4].sign(AGREEMENT_PURPOSE, body))),
        Confirmations((0, 1, 2, 3), (played.keys[0].sign(SURVIVORS_PURPOSE, body), one, two, three)),
        Confirmations((1, 2, 3, 99), (one, two, three, four)),
        Confirmations((), ()),
    ]
    for confirmations in bad:
        member = Participant.from_bytes(played.members[1].to_bytes(), played.keys[1])
        with pytest.raises(DeclinedError, match=r"confirm|Confirm"):
            member.open(confirmations)
        with pytest.raises(DeclinedError, match="ended"):
            member.open(true)
    played.members[1].open(true)


@pytest.mark.parametrize(("clients", "dropouts", "gone"), [(5, 1, 0), (6, 2, 1), (10, 4, 3), (10, 0, None)])
def test_of_no_client_are_both_keys_opened(clients: int, dropouts: int, gone: int | None) -> None:
    """After a whole attempt, with all openings and all that a colluder knows: too few shares of the other."""
    played = Played(head(clients, dropouts)).until_masked([] if gone is None else [gone])
    played.confirm()
    confirmations, survivors = played.server.confirmations(), played.server.survivors().places
    before = {place: [told(played, place, victim) for victim in range(clients)] for place in survivors}
    openings = {place: played.members[place].open(confirmations) for place in survivors}
    colluder = clients - 1
    for victim in range(clients - 1):
        known: tuple[set[int], set[int]] = set(), set()
        for place in survivors:
            for kind in (0, 1):
                if openings[place].shares[victim] == before[place][victim][kind] or place == colluder:
                    known[kind].add(place)
        hidden = 1 if victim in survivors else 0
        assert known[hidden] == {colluder}
        assert len(known[1 - hidden]) >= played.head.threshold > 1
    checked_shares(clients, dropouts, 1)  # raises for more drop-outs than a threshold allows
