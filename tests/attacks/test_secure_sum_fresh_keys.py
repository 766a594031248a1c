"""Property 1: what an attempt opens opens no other. Each attack is shown to work where keys are used twice.

Bonawitz et al. open the key agreement of a drop-out: with keys that last, one drop-out opens all the rounds
in which that client survived.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from federation.secure_sum.attempts import Integers, Played, head, looks_uniform
from opened import secret_of, unmasked

from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.messages import Masked, Opening

CLIENTS, VICTIM, NUMBERS = 5, 2, 2000


def played(number: int, victim_survives: bool) -> tuple[Played, Masked, dict[int, Opening]]:
    """An attempt, the victim's vector, whether the server counts it or not, and what all others opened."""
    game = Played(head(CLIENTS, numbers=NUMBERS, server_round=number))
    game.until_shared()
    vectors = [game.answer_of(place) for place in range(CLIENTS)]
    for place, vector in enumerate(vectors):
        if place != VICTIM or victim_survives:
            game.server.take_masked(game.names[place], vector.to_fields())
    game.confirm()
    confirmations = game.server.confirmations()
    openings = {place: game.members[place].open(confirmations) for place in confirmations.places}
    return game, vectors[VICTIM], openings


def attack(first_survives: bool) -> tuple[Integers, Integers]:
    """The victim's vector of attempt 1 by secrets opened in both; and what it truly was.

    A survivor's opened secret is its seed, another's its mask key: each attempt has another of the two.
    """
    one, vector, opened_in_one = played(1, first_survives)
    two, _, opened_in_two = played(2, not first_survives)
    threshold = one.head.threshold
    secrets = [
        secret_of(VICTIM, opened_in_one, threshold),
        secret_of(VICTIM, opened_in_two, two.head.threshold),
    ]
    seed, private = secrets if first_survives else reversed(secrets)
    return unmasked(one, VICTIM, vector, seed, private), one.integers[VICTIM]


ORDERS = pytest.mark.parametrize(
    "first_survives", [True, False], ids=["dropped in round 2", "dropped in attempt 1, survives attempt 2"]
)


@ORDERS
def test_what_is_opened_later_opens_nothing_earlier(first_survives: bool) -> None:
    found, true = attack(first_survives)
    assert looks_uniform((found - true).view(np.uint64))


@ORDERS
def test_it_would_with_keys_that_last(first_survives: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack itself is sound: with the same secrets in both attempts it gives every bit."""
    lasting = [bytes([number]) * 32 for number in range(1, 3 * CLIENTS + 1)]

    def again() -> Iterator[bytes]:
        while True:
            yield from lasting

    secrets = again()
    monkeypatch.setattr(keys, "fresh_secret", lambda: next(secrets))
    found, true = attack(first_survives)
    assert (found == true).all()


def test_all_keys_and_seeds_of_a_site_are_new_in_each_attempt() -> None:
    seen: set[bytes] = set()
    for attempt in range(3):
        game = Played(head(3, 0, server_round=attempt))
        game.advertise()
        members = game.server.terms().members
        seen |= {key for one in members for key in one.keys}
    assert len(seen) == 3 * 3 * 3
