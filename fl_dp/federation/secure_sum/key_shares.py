"""Shares of a secret (Shamir 1979), any t of which give it and fewer tell nothing, and a proof that they do.

All numbers are modulo the order of P-256, a prime; s is the secret, P = s G its public key.

    f    a random polynomial of degree t - 1 with f(0) = s; the share of the member at place j is f(j + 1)
    r    another, all of it random
    c_j  SHA-256 of f(j + 1) and r(j + 1): commitments           N  the x coordinate of r(0) G
    e    SHA-256 of P, N, all c_j, and what the proof is about: the challenge
    z    r + e f, all its t coefficients: the answer

The dealer tells the server all c_j, N and z. The server checks that x(z(0) G - e P) is N; each member checks
that c_j is of its share and of z(j + 1) - e times its share. At most four of the challenges fit shares that lie on
no polynomial of degree t - 1 with f(0) = s, and the commitments fix the shares before the challenge is known.
z tells nothing, since r hides f. This is the proof of Atapoor, Baghery, Cozzo and Pedersen 2023 ("VSS from
distributed ZK proofs and applications"), with Schnorr's of the secret, for the same challenge, at 0.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.keys import CURVE, ORDER, SECRET_BYTES
from fl_dp.reporting.wording import counted

SHARE_BYTES = SECRET_BYTES
GAUGE_BYTES = 3 * SHARE_BYTES


def is_share(content: bytes) -> bool:
    return len(content) == SHARE_BYTES and int.from_bytes(content) < ORDER


@dataclass(frozen=True, slots=True)
class Proof:
    """commitments: of each member, by place. nonce: N. answer: z's coefficients, that of degree 0 first."""

    commitments: tuple[bytes, ...]
    nonce: bytes
    answer: tuple[bytes, ...]


def deal(secret: bytes, members: int, threshold: int, about: bytes) -> tuple[list[bytes], Proof]:
    """A share for each member, by its place, and their proof. about: what it holds for, and nothing else."""
    hidden = [int.from_bytes(secret), *(secrets.randbelow(ORDER) for _ in range(threshold - 1))]
    blind = [int.from_bytes(keys.fresh_secret()), *(secrets.randbelow(ORDER) for _ in range(threshold - 1))]
    shares = [_value(hidden, place) for place in range(members)]
    commitments = tuple(_commitment(share, _value(blind, place)) for place, share in enumerate(shares))
    nonce = keys.public_of(blind[0].to_bytes(SECRET_BYTES))[1:]
    challenge = _challenge(keys.public_of(secret), nonce, commitments, about)
    answer = (_bytes(one + challenge * other) for one, other in zip(blind, hidden, strict=True))
    return [_bytes(share) for share in shares], Proof(commitments, nonce, tuple(answer))


class Gauges:
    """What each member's share of one secret must fit, by the dealer's proof."""

    def __init__(self, proof: Proof, challenge: int) -> None:
        self._proof, self._challenge = proof, challenge
        self._answer = [int.from_bytes(one) for one in proof.answer]

    @classmethod
    def checked(cls, public: bytes, proof: Proof, members: int, threshold: int, about: bytes) -> Self | None:
        """None unless the proof is one for shares of the secret of this public key, any `threshold` of which
        give it."""
        if len(proof.commitments) != members or len(proof.answer) != threshold:
            return None
        challenge = _challenge(public, proof.nonce, proof.commitments, about)
        first = int.from_bytes(proof.answer[0])
        fits = all(map(is_share, proof.answer)) and _is_nonce(public, proof.nonce, first, challenge)
        return cls(proof, challenge) if fits else None

    def of(self, place: int) -> bytes:
        """Of this member's share, for `fits`."""
        return self._proof.commitments[place] + _bytes(_value(self._answer, place)) + _bytes(self._challenge)


def fits(share: bytes, gauge: bytes) -> bool:
    """Whether it is the share that its dealer has committed to, and lies where the proof says."""
    commitment, *numbers = (
        gauge[start : start + SHARE_BYTES] for start in range(0, GAUGE_BYTES, SHARE_BYTES)
    )
    value, challenge = map(int.from_bytes, numbers)
    number = int.from_bytes(share)
    return is_share(share) and _commitment(number, (value - challenge * number) % ORDER) == commitment


class Opener:
    """Opens secrets from the shares of those who answered, of whom some may lie.

    members: places of those who answered, at least `threshold`; ConfigError if there are fewer.
    wrong: who has given a share that is not the one it was dealt.
    """

    def __init__(self, members: Iterable[int], threshold: int) -> None:
        self._members, self._threshold = sorted(set(members)), threshold
        if len(self._members) < threshold:
            raise ConfigError(f"{counted(len(self._members), 'key share')}: {threshold} open a key.")
        self._weights: dict[tuple[int, ...], list[int]] = {}
        self.wrong: set[int] = set()

    def open(
        self, shares: Mapping[int, bytes], is_secret: Callable[[bytes], bool], is_dealt: Callable[[int], bool]
    ) -> bytes | None:
        """The secret whose share each member has given; None where too few have given theirs.

        is_dealt: whether a member's share is the one it was dealt; asked only where the secret is none. Who
        has lied once is not used for the next secret either, as long as others are enough.
        """
        found = self._secret(shares, self._members)
        if not is_secret(found):
            true = [member for member in self._members if is_dealt(member)]
            self.wrong.update(set(self._members) - set(true))
            if len(true) < self._threshold or not is_secret(found := self._secret(shares, true)):
                return None
        return found

    def _secret(self, shares: Mapping[int, bytes], members: Sequence[int]) -> bytes:
        used = tuple(sorted(members, key=lambda member: (member in self.wrong, member))[: self._threshold])
        if used not in self._weights:
            self._weights[used] = _weights(used)
        pairs = zip(used, self._weights[used], strict=True)
        return _bytes(sum(int.from_bytes(shares[member]) * weight for member, weight in pairs))


def _weights(members: Sequence[int]) -> list[int]:
    """Lagrange's weights at 0 for the points place + 1: the product over the others of x' / (x' - x).

    They take all the time, and are the same for all secrets.
    """
    points = [member + 1 for member in members]
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above, below = above * other, below * (other - point)
        weights.append(above * pow(below, -1, ORDER) % ORDER)
    return weights


def _value(coefficients: Sequence[int], place: int) -> int:
    """Of the polynomial at this place's point, place + 1."""
    value = 0
    for one in reversed(coefficients):
        value = (value * (place + 1) + one) % ORDER
    return value


def _bytes(number: int) -> bytes:
    return (number % ORDER).to_bytes(SHARE_BYTES)


def _commitment(share: int, blind: int) -> bytes:
    """Binding, and hiding: who could guess a share that it is not told could guess the secret."""
    return sha256(b"fl_dp secure sum 2 share\0" + _bytes(share) + _bytes(blind)).digest()


def _challenge(public: bytes, nonce: bytes, commitments: Sequence[bytes], about: bytes) -> int:
    """All parts but the last have fixed lengths, and their number is a part of what the terms say."""
    text = b"fl_dp secure sum 2 challenge\0" + public + nonce + b"".join(commitments) + about
    return int.from_bytes(sha256(text).digest()) % ORDER


def _is_nonce(public: bytes, nonce: bytes, answer: int, challenge: int) -> bool:
    """Whether x(answer G - challenge P) is the nonce, modulo the order.

    It is what ECDSA verifies, u1 G + u2 P for u1 = h / s and u2 = x / s, with h and s such that u1 is the
    answer and u2 is minus the challenge: the library does all arithmetic on points.
    """
    number = int.from_bytes(nonce) % ORDER
    if not number or not challenge:
        return False
    s = -number * pow(challenge, -1, ORDER) % ORDER
    key = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, public)
    try:
        key.verify(encode_dss_signature(number, s), _bytes(answer * s), ec.ECDSA(Prehashed(SHA256())))
    except InvalidSignature:
        return False
    return True
