"""Property 4: drop-outs and colluders are declared apart, and no sum is smaller than was agreed.

Too small a sum has too few shares of noise; too low a threshold opens both masks of one client; and whoever
is not in the client's own kit is nobody.
"""

import dataclasses

import numpy as np
import pytest
from federation.secure_sum import attempts
from federation.secure_sum.attempts import LIMITS, Played, head
from opened import secret_of, unmasked

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum import participant, summing
from fl_dp.federation.secure_sum.limits import Limits
from fl_dp.federation.secure_sum.messages import SURVIVORS_PURPOSE, Survivors, survivors_body
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.terms import Terms
from fl_dp.kits.keys import SigningKey


@pytest.mark.parametrize(
    ("places", "clients", "dropouts"),
    [((0,), 5, 1), ((0, 1), 5, 1), ((0, 3, 4), 5, 1), (tuple(range(7)), 10, 2)],  # 7 are enough to open it
)
def test_too_small_a_sum_is_not_opened(places: tuple[int, ...], clients: int, dropouts: int) -> None:
    played = Played(head(clients, dropouts)).until_masked()
    least = clients - dropouts
    with pytest.raises(DeclinedError, match=f"of {len(places)} clients?: expected at least {least}"):
        played.members[0].confirm(Survivors(places))


def test_a_sum_without_oneself_is_not_confirmed() -> None:
    played = Played(head(5)).until_masked()
    with pytest.raises(DeclinedError, match="without this client's own vector"):
        played.members[0].confirm(Survivors((1, 2, 3, 4)))


@pytest.mark.parametrize("clients", [3, 4, 5, 8, 12])
def test_a_threshold_out_of_range_is_declined_at_once(clients: int) -> None:
    key = attempts.sites(1)[0]
    for dropouts in range(clients):
        for colluders in range(clients):
            for threshold in range(1, clients + 1):
                proposed = head(clients, dropouts, colluders=colluders, threshold=threshold)
                allowed = colluders >= 1 and dropouts + colluders < clients
                allowed &= clients + colluders < 2 * threshold <= 2 * (clients - dropouts)
                if allowed:
                    Participant.begin(proposed, LIMITS, key)
                else:
                    with pytest.raises(DeclinedError):
                        Participant.begin(proposed, LIMITS, key)


def test_three_clients_cannot_lose_one() -> None:
    with pytest.raises(DeclinedError, match="no threshold is above"):
        Participant.begin(head(3, 1, threshold=2), LIMITS, attempts.sites(1)[0])


@pytest.mark.parametrize("limits", [Limits(5, 1, 1), Limits(2, 4, 1), Limits(2, 1, 2)])
def test_a_client_keeps_to_its_own_settings(limits: Limits) -> None:
    """At the first stage, and at the second if they were changed meanwhile."""
    with pytest.raises(DeclinedError, match="this client's settings ask for"):
        Participant.begin(head(5), limits, attempts.sites(1)[0])
    played = Played(head(5))
    played.advertise()
    with pytest.raises(DeclinedError, match="this client's settings ask for"):
        played.members[0].share(played.server.terms(), limits, played.roster)


@pytest.mark.parametrize("puppets", [1, 3, 4])
def test_puppets_that_are_not_in_the_kit(puppets: int) -> None:
    """The server has keys of its own making, well signed, and one honest client among them."""
    played = Played(head(5))
    victim = played.keys[0]
    everybody = sorted(
        [*played.keys[: 5 - puppets], *(SigningKey.generate() for _ in range(puppets))],
        key=lambda key: key.public,
    )
    played.keys, played.names = everybody, [key.public for key in everybody]
    played.server = summing.SecureSum(played.head, dict.fromkeys(played.names, "client"))
    played.advertise()
    member = played.members[everybody.index(victim)]
    with pytest.raises(DeclinedError, match="is not in this client's roster"):
        member.share(played.server.terms(), LIMITS, played.roster)


def test_one_site_is_not_two_members() -> None:
    played = Played(head(5))
    played.advertise()
    members = played.server.terms().members
    with pytest.raises(ValueError, match="in order, once"):
        Terms(played.head, (*members[:4], dataclasses.replace(members[3], name="another")))


def both_masks(threshold: int) -> tuple[Played, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """K = 6, d = c = 1. Half is told that client 0 has dropped out, half that it has not."""
    played = Played(head(6, threshold=threshold))
    played.until_shared()
    vector = played.answer_of(0)
    for place in range(1, 6):
        played.answer_of(place)
    openings = []
    for survivors, asked in (
        (Survivors((0, 1, 2, 3, 4, 5)), (0, 1)),
        (Survivors((1, 2, 3, 4, 5)), (2, 3, 4)),
    ):
        signers = {place: played.members[place].confirm(survivors).signature for place in asked}
        body = survivors_body(played.server.terms().digest, survivors.places)
        signers[5] = played.keys[5].sign(SURVIVORS_PURPOSE, body)
        confirmations = played.confirmations_of(survivors, signers)
        colluder = Participant.from_bytes(played.members[5].to_bytes(), played.keys[5])
        colluder.confirm(survivors)
        opened = {place: played.members[place].open(confirmations) for place in asked}
        openings.append(opened | {5: colluder.open(confirmations)})
    seed, private = (secret_of(0, opened, threshold) for opened in openings)
    return played, unmasked(played, 0, vector, seed, private)


def test_both_masks_would_open_with_too_low_a_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """t = 3 of K = 6 with c = 1: the attack gives every bit. So the rule, and nothing else, prevents it."""
    with pytest.raises(DeclinedError, match="threshold 3: expected 4 to 5"):
        both_masks(3)
    for place in (participant, summing):
        name = "check_head" if place is participant else "check_threshold"
        monkeypatch.setattr(place, name, lambda *_: None)
    monkeypatch.setattr("fl_dp.federation.secure_sum.terms.check_head", lambda *_: None)
    played, found = both_masks(3)
    assert (found == played.integers[0]).all()


@pytest.mark.parametrize("threshold", [4, 5])
def test_both_masks_do_not_open_with_a_threshold_that_is_allowed(threshold: int) -> None:
    with pytest.raises(
        DeclinedError, match=f"3 confirmations of a secure sum: expected at least {threshold}"
    ):
        both_masks(threshold)
