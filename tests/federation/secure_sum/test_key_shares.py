"""Dealing, proving and putting together; and against dealers and members who lie."""

import secrets
from dataclasses import replace

import pytest

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum import key_shares
from fl_dp.federation.secure_sum.key_shares import GAUGE_BYTES, deal, fits, gauges, is_share, secret_of
from fl_dp.federation.secure_sum.keys import ORDER, fresh_secret, public_of

ABOUT = b"this attempt, this dealer, this secret"
SMALL, LARGE = (1).to_bytes(32), (ORDER - 1).to_bytes(32)


@pytest.mark.parametrize(("members", "threshold"), [(3, 2), (10, 6), (12, 12), (100, 51)])
@pytest.mark.parametrize("secret", [SMALL, LARGE, None])
def test_any_threshold_of_shares_give_the_secret_and_one_fewer_do_not(members, threshold, secret):
    secret = secret or fresh_secret()
    shares, _ = deal(secret, members, threshold, ABOUT)
    chosen = secrets.SystemRandom().sample(range(members), threshold)
    assert secret_of({place: shares[place] for place in chosen}, threshold) == secret
    assert secret_of({place: shares[place] for place in chosen[1:]}, threshold - 1) != secret
    assert shares != deal(secret, members, threshold, ABOUT)[0]  # a polynomial is new each time


def test_shares_of_a_polynomial_that_was_written_down():
    """5 + 3 x + 2 x^2 at the points 1, 3 and 5."""
    shares = {0: (10).to_bytes(32), 2: (32).to_bytes(32), 4: (70).to_bytes(32)}
    assert secret_of(shares, 3) == (5).to_bytes(32)


def test_fewer_than_the_threshold_open_nothing():
    with pytest.raises(ConfigError, match="2 key shares: 3 open a key"):
        secret_of({0: SMALL, 3: SMALL}, 3)


def gauges_of(secret: bytes, proof, public: bytes | None = None, about: bytes = ABOUT):
    return gauges(public or public_of(secret), proof, 10, 6, about)


def test_every_share_that_was_dealt_fits_and_no_other_number_does():
    secret = fresh_secret()
    shares, proof = deal(secret, 10, 6, ABOUT)
    found = gauges_of(secret, proof)
    for place, share in enumerate(shares):
        assert len(found[place]) == GAUGE_BYTES
        assert fits(share, found[place])
        assert not fits(shares[place - 1], found[place])
        assert not fits(((int.from_bytes(share) + 1) % ORDER).to_bytes(32), found[place])
        assert not fits((int.from_bytes(share) + ORDER).to_bytes(33), found[place])


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


@pytest.mark.parametrize(("members", "threshold"), [(9, 6), (11, 6), (10, 5), (10, 7)])
def test_a_proof_is_for_so_many_members_and_so_many_shares(members, threshold):
    """A sound one of others; with fewer commitments the server would look for some that are not there."""
    secret = fresh_secret()
    _, proof = deal(secret, members, threshold, ABOUT)
    assert gauges(public_of(secret), proof, members, threshold, ABOUT) is not None
    assert gauges_of(secret, proof) is None


@pytest.mark.parametrize("which", ["share", "blind"])
def test_shares_that_lie_on_no_polynomial_of_the_degree_do_not_fit(which, monkeypatch):
    """The dealer knows the secret and commits to what it sends: six members would find a wrong secret."""
    secret, value, count = fresh_secret(), key_shares._value, iter(range(20))

    def bent(numbers, place):
        first = next(count) < 10  # the shares are the first ten values, then come those that hide them
        return (value(numbers, place) + (first == (which == "share")) * (place + 1) ** 7) % ORDER

    monkeypatch.setattr(key_shares, "_value", bent)
    shares, proof = deal(secret, 10, 6, ABOUT)
    monkeypatch.setattr(key_shares, "_value", value)
    found = gauges_of(secret, proof)
    assert found is not None  # the server cannot see it, each member does
    assert not any(map(fits, shares, found))


def test_every_coefficient_but_the_secret_is_drawn_anew(monkeypatch):
    """The proof tells nothing since each coefficient of r hides one of f, and is used once."""
    secret, drawn, randbelow = fresh_secret(), [], secrets.randbelow
    monkeypatch.setattr(secrets, "randbelow", lambda below: drawn.append(randbelow(below)) or drawn[-1])
    first, second = (deal(secret, 10, 6, ABOUT)[1] for _ in range(2))
    assert len(set(drawn)) == len(drawn) == 2 * (5 + 6)
    assert not {first.nonce, *first.answer} & {second.nonce, *second.answer}
    assert not set(first.commitments) & set(second.commitments)


def test_the_challenge_is_of_all_that_was_sent_before_it():
    """One that leaves a part out lets the dealer choose it afterwards."""
    parts = [b"P" * 33, b"N" * 32, [b"c" * 32, b"d" * 32], ABOUT]
    others = [b"Q" * 33, b"M" * 32, [b"c" * 32, b"e" * 32], b"another attempt"]
    changes = [parts, *([*parts[:k], other, *parts[k + 1 :]] for k, other in enumerate(others))]
    assert len({key_shares._challenge(*one) for one in changes}) == 5


def test_what_is_a_share():
    assert is_share((ORDER - 1).to_bytes(32))
    assert not any(map(is_share, (ORDER.to_bytes(32), bytes(31), bytes(33))))
