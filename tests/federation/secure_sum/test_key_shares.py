"""Dealing, proving and putting together, against the package `shamirs` and against who lies at either end."""

import secrets
from dataclasses import replace

import pytest
import shamirs

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum import key_shares
from fl_dp.federation.secure_sum.key_shares import GAUGE_BYTES, Gauges, Opener, deal, fits, is_share
from fl_dp.federation.secure_sum.keys import ORDER, fresh_secret, public_of

ABOUT = b"this attempt, this dealer, this secret"
SMALL, LARGE = (1).to_bytes(32), (ORDER - 1).to_bytes(32)


@pytest.mark.parametrize(("members", "threshold"), [(3, 2), (10, 6), (12, 12), (100, 51)])
@pytest.mark.parametrize("secret", [SMALL, LARGE, None])
def test_any_threshold_of_shares_give_the_secret_as_the_library_says(members, threshold, secret):
    secret = secret or fresh_secret()
    shares, _ = deal(secret, members, threshold, ABOUT)
    chosen = secrets.SystemRandom().sample(range(members), threshold)
    found = Opener(chosen, threshold).open(
        {place: shares[place] for place in chosen}, lambda one: one == secret, lambda one: True
    )
    points = [shamirs.share(place + 1, int.from_bytes(shares[place]), ORDER) for place in chosen]
    assert found == secret == shamirs.interpolate(points, threshold=threshold).to_bytes(32)
    fewer = [shamirs.share(place + 1, int.from_bytes(shares[place]), ORDER) for place in chosen[1:]]
    assert shamirs.interpolate(fewer).to_bytes(32) != secret
    assert shares != deal(secret, members, threshold, ABOUT)[0]  # a polynomial is new each time


def test_fewer_than_the_threshold_open_nothing():
    with pytest.raises(ConfigError, match="2 key shares: 3 open a key"):
        Opener([0, 3, 3], 3)


def gauges_of(secret: bytes, proof, public: bytes | None = None, about: bytes = ABOUT, threshold: int = 6):
    return Gauges.checked(public or public_of(secret), proof, 10, threshold, about)


def test_every_share_that_was_dealt_fits_and_no_other_number_does():
    secret = fresh_secret()
    shares, proof = deal(secret, 10, 6, ABOUT)
    gauges = gauges_of(secret, proof)
    assert gauges is not None
    for place, share in enumerate(shares):
        gauge = gauges.of(place)
        assert len(gauge) == GAUGE_BYTES
        assert fits(share, gauge)
        assert not fits(shares[place - 1], gauge)
        assert not fits(((int.from_bytes(share) + 1) % ORDER).to_bytes(32), gauge)
        assert not fits((int.from_bytes(share) % 2**247 + ORDER).to_bytes(33), gauge)
    assert not fits((ORDER + 5).to_bytes(32), gauges.of(0))


def changed(content: bytes) -> bytes:
    return ((int.from_bytes(content) + 1) % ORDER).to_bytes(32)


@pytest.mark.parametrize(
    "lie",
    [
        lambda proof: replace(proof, answer=(changed(proof.answer[0]), *proof.answer[1:])),
        lambda proof: replace(proof, answer=(*proof.answer, bytes(32))),
        lambda proof: replace(proof, answer=proof.answer[:-1]),
        lambda proof: replace(proof, answer=(*proof.answer[:-1], b"\xff" * 32)),
        lambda proof: replace(proof, nonce=changed(proof.nonce)),
        lambda proof: replace(proof, nonce=bytes(32)),
        lambda proof: replace(proof, commitments=(*proof.commitments[:-1], bytes(32))),
        lambda proof: replace(proof, commitments=proof.commitments[:-1]),
    ],
)
def test_a_proof_that_was_changed_is_none(lie):
    secret = fresh_secret()
    _, proof = deal(secret, 10, 6, ABOUT)
    assert gauges_of(secret, proof) is not None
    assert gauges_of(secret, lie(proof)) is None


def test_a_proof_is_for_one_secret_in_one_attempt():
    """Not for another public key, though the shares fit each other; nor anywhere else."""
    secret = fresh_secret()
    _, proof = deal(secret, 10, 6, ABOUT)
    assert gauges_of(secret, proof, public_of(fresh_secret())) is None
    assert gauges_of(secret, proof, about=ABOUT + b" of another attempt") is None


def test_shares_of_a_polynomial_of_another_degree_do_not_fit(monkeypatch):
    """The dealer knows the secret and commits to what it sends: six members would find a wrong secret."""
    secret, value = fresh_secret(), key_shares._value
    monkeypatch.setattr(
        key_shares, "_value", lambda numbers, place: (value(numbers, place) + (place + 1) ** 7) % ORDER
    )
    shares, proof = deal(secret, 10, 6, ABOUT)
    monkeypatch.setattr(key_shares, "_value", value)
    gauges = gauges_of(secret, proof)
    assert gauges is not None  # the server cannot see it, each member does
    assert not any(fits(share, gauges.of(place)) for place, share in enumerate(shares))


@pytest.mark.parametrize("liars", [set(), {0}, {9}, {0, 1, 5, 9}])
def test_liars_are_found_where_enough_shares_fit(liars: set[int]):
    opener = Opener(range(10), 6)
    for secret in (fresh_secret(), fresh_secret()):
        dealt, proof = deal(secret, 10, 6, ABOUT)
        gauges = gauges_of(secret, proof)
        assert gauges is not None
        shares = dict(enumerate(dealt)) | {place: fresh_secret() for place in liars}
        found = opener.open(
            shares,
            lambda one, secret=secret: one == secret,
            lambda place, shares=shares, gauges=gauges: fits(shares[place], gauges.of(place)),
        )
        assert found == secret
    assert opener.wrong == (liars if liars & set(range(6)) else set())


def test_who_lies_about_one_secret_does_not_close_another():
    """Of seven six are needed: each of two secrets has one liar, and both open."""
    opener = Opener(range(7), 6)
    for liar in (0, 1):
        secret = fresh_secret()
        shares = dict(enumerate(deal(secret, 7, 6, ABOUT)[0])) | {liar: fresh_secret()}
        found = opener.open(
            shares, lambda one, secret=secret: one == secret, lambda place, liar=liar: place != liar
        )
        assert found == secret
    assert opener.wrong == {0, 1}


def test_too_few_true_shares_open_nothing():
    secret = fresh_secret()
    shares = dict(enumerate(deal(secret, 100, 51, ABOUT)[0])) | dict.fromkeys(range(49), bytes(32))
    opener = Opener(range(100), 51)
    assert opener.open(shares, lambda one: one == secret, lambda place: place >= 50) is None
    assert opener.open(shares, lambda one: one == secret, lambda place: place >= 49) == secret


def test_what_is_a_share():
    assert is_share((ORDER - 1).to_bytes(32))
    assert not any(map(is_share, (ORDER.to_bytes(32), bytes(31), bytes(33))))
