"""What a client agrees to: its digest covers all, and terms that do not hold are declined with a reason."""

import dataclasses

import pytest
from federation.secure_sum.attempts import LIMITS, Played, carried, head

from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.secure_sum.limits import Limits, check_threshold, checked_shares, least_threshold
from fl_dp.federation.secure_sum.terms import Head, Member, Terms, check_head, check_terms


def test_the_digest_is_of_every_field_the_same_at_the_other_end_and_in_a_year():
    played = Played(head(3, 0))
    played.advertise()
    terms = played.server.terms()
    assert carried(terms) == terms
    assert carried(terms).digest == terms.digest
    members = [Member(f"client {k}", f"{k:064}", *([bytes([k]) * 33] * 3), bytes(64)) for k in range(5)]
    pinned = Terms(head(5, attempt="0" * 32), tuple(members))
    assert (pinned.head.digest.hex()[:32], pinned.digest.hex()[:32]) == PINNED


PINNED = "289ed74cd0190ca23ac25348b5d3c814", "0a29e842da0b0e3888ed94fef5eecab4"


@pytest.mark.parametrize(
    ("clients", "colluders", "threshold", "dropouts"),
    [(3, 1, 3, 0), (4, 1, 3, 1), (5, 1, 4, 1), (6, 1, 4, 2), (10, 1, 6, 4), (10, 2, 7, 3), (100, 1, 51, 49)],
)
def test_least_threshold_and_most_drop_outs(clients, colluders, threshold, dropouts):
    assert least_threshold(clients, colluders) == threshold
    checked_shares(clients, dropouts, colluders)
    check_threshold(clients, dropouts, colluders, threshold)
    for more, less in ((0, 1), (1, 0)):
        with pytest.raises(DeclinedError):
            check_threshold(clients, dropouts + more, colluders, threshold - less)


@pytest.mark.parametrize("numbers", [(2, 0, 1), (101, 0, 1), (5, -1, 1), (5, 1, 0), (5, 4, 1), (3, 1, 2)])
def test_numbers_that_leave_no_share_of_noise(numbers: tuple[int, int, int]):
    with pytest.raises(DeclinedError):
        checked_shares(*numbers)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threshold": 3}, "threshold 3: expected 4 to 4 for 5 clients, 1 drop-out and 1 colluder"),
        ({"threshold": 5}, "threshold 5: expected 4 to 4"),
        ({"colluders": 0}, "colluders = 0"),
        ({"modulus": "2^32"}, "modulo"),
        ({"sensitivity": 1.0}, "clipping to 1 on a grid"),
        ({"share_deviation": 0.5}, "deviation of 0.866"),
        ({"noise_multiplier": 1.1}, "expected noise_multiplier times sensitivity"),
    ],
)
def test_a_head_that_does_not_hold_is_declined(changes, words):
    check_head(head(5), LIMITS)
    with pytest.raises(DeclinedError, match=words):
        check_head(dataclasses.replace(head(5), **changes), LIMITS)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(least_clients=5), "4 clients in a sum: this client's settings ask for 5"),
        (Limits(most_dropouts=0), "A secure sum with 1 drop-out: this client's settings allow 0"),
        (Limits(least_shares=4), "3 shares of noise: this client's settings ask for 4"),
        (Limits(least_colluders=2), "A secure sum for 1 colluder: this client's settings ask for 2"),
    ],
)
def test_a_clients_own_limits(limits, words):
    with pytest.raises(DeclinedError, match=words):
        check_head(head(5), limits)
    check_head(head(5), Limits(4, 3, 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", ""),
        ("run", 5),
        ("server_round", -1),
        ("server_round", True),
        ("attempt", "g" * 32),
        ("attempt", "0" * 31),
        ("plan", "A" * 64),
        ("max_grad_norm", float("nan")),
        ("sensitivity", 0.0),
        ("noise_multiplier", float("inf")),
        ("numbers", 2**40),
        ("clients", 10**9),
        ("threshold", 4.0),
        ("share_deviation", 1),
    ],
)
def test_impossible_terms_are_not_read(name, value):
    with pytest.raises(ConfigError, match=name):
        Head.from_fields({**head(5).to_fields(), name: value})


def test_members_are_in_order_each_once_and_as_many_as_stated():
    played = Played(head(3, 0))
    played.advertise()
    one, two, three = played.server.terms().members
    for members in [(one, two), (two, one, three), (one, two, three, three)]:
        with pytest.raises(ConfigError, match="in order, once"):
            Terms(played.head, members)
    fields = played.server.terms().to_fields()
    for names, words in ((["one"], "several lengths"), (["one"] * 1000, "impossible names")):
        with pytest.raises(ConfigError, match=words):
            Terms.from_fields({**fields, "names": names})


def test_a_client_that_is_no_member_declines():
    played = Played(head(3, 0))
    played.advertise()
    with pytest.raises(DeclinedError, match="without this client"):
        check_terms(played.server.terms(), LIMITS, played.roster, "a" * 64)
