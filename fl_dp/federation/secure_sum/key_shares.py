"""Shares of a secret (Shamir 1979): any t give the secret, fewer reveal nothing; and a proof that they fit.

All numbers are modulo the order of P-256, a prime; s is the secret, P = s G its public key.

    f    a random polynomial of degree t - 1 with f(0) = s; the share of the member at place j is f(j + 1)
    r    another, all of it random
    c_j  SHA-256 of f(j + 1) and r(j + 1): commitments           N  the x coordinate of r(0) G
    e    SHA-256 of P, N, all c_j, and what the proof is about: the challenge
    z    r + e f, all its t coefficients: the answer

The dealer tells the server all c_j, N and z. The server checks that x(z(0) G - e P) is N; each member checks
that c_j is of its share and of z(j + 1) - e times its share: then it fits. After Atapoor, Baghery, Cozzo
and Pedersen 2023 ("VSS from distributed ZK proofs and applications", eprint 2023/992), who commit to f and r
apart, each with random bytes. Proofs, with SHA-256 as a random function:

- Any t shares that fit give s, except with a chance of 2^-156 per hash that a dealer computes. Each c_j
  fixes one pair (v_j, w_j) before e is known, and v_j fits only if w_j + e v_j = z(j + 1). N fixes four w at
  most, with w + e s = z(0) for one. By Lagrange, w + e s = (weighted sum of w_j) + e (weighted sum of v_j).
  If the latter is not s, at most one e solves this: a chance of 2^-255, for fewer than 2^97 sets of t and
  four w.
- Fewer than t tell no more than P: draw them, z and e, and set N = x(z(0) G - e P).
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from fl_dp.errors import ConfigError
from fl_dp.federation.secure_sum import keys
from fl_dp.federation.secure_sum.keys import CURVE, ORDER, PREFIX, SECRET_BYTES
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
    """A share for each member, by place, and their proof. about: the only thing that the proof holds for."""
    hidden = [int.from_bytes(secret), *(secrets.randbelow(ORDER) for _ in range(threshold - 1))]
    blind = [secrets.randbelow(ORDER) for _ in range(threshold)]
    shares = [_value(hidden, place) for place in range(members)]
    commitments = tuple(_commitment(share, _value(blind, place)) for place, share in enumerate(shares))
    nonce = keys.public_of(blind[0].to_bytes(SECRET_BYTES))[1:]
    challenge = _challenge(keys.public_of(secret), nonce, commitments, about)
    answer = (_bytes(one + challenge * other) for one, other in zip(blind, hidden, strict=True))
    return [_bytes(share) for share in shares], Proof(commitments, nonce, tuple(answer))


def gauges(public: bytes, proof: Proof, members: int, threshold: int, about: bytes) -> list[bytes] | None:
    """By place, what each member's share must fit, see `fits`. None if the proof is invalid for this key.

    Any `threshold` shares that fit give the secret of the public key.
    """
    if len(proof.commitments) != members or len(proof.answer) != threshold:
        return None
    challenge = _challenge(public, proof.nonce, proof.commitments, about)
    answer = [int.from_bytes(one) for one in proof.answer]
    if not all(map(is_share, proof.answer)) or not _is_nonce(public, proof.nonce, answer[0], challenge):
        return None
    return [
        commitment + _bytes(_value(answer, place)) + _bytes(challenge)
        for place, commitment in enumerate(proof.commitments)
    ]


def fits(share: bytes, gauge: bytes) -> bool:
    """Whether it is the share that its dealer committed to, and has the value that the proof implies."""
    commitment, *numbers = (
        gauge[start : start + SHARE_BYTES] for start in range(0, GAUGE_BYTES, SHARE_BYTES)
    )
    value, challenge = map(int.from_bytes, numbers)
    number = int.from_bytes(share)
    return is_share(share) and _commitment(number, (value - challenge * number) % ORDER) == commitment


def secret_of(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret of these shares, by place; ConfigError if they are fewer than `threshold`."""
    if len(shares) < threshold:
        raise ConfigError(f"{counted(len(shares), 'key share')}: {threshold} open a key.")
    used = tuple(sorted(shares)[:threshold])
    pairs = zip(used, _weights(used), strict=True)
    return _bytes(sum(int.from_bytes(shares[place]) * weight for place, weight in pairs))


@lru_cache(maxsize=8)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights at 0 for the points place + 1: the product over the others of x' / (x' - x).

    Cached, because they take all the time and are the same for all secrets.
    """
    points = [place + 1 for place in places]
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above, below = above * other, below * (other - point)
        weights.append(above * pow(below, -1, ORDER) % ORDER)
    return tuple(weights)


def _value(coefficients: Sequence[int], place: int) -> int:
    """The polynomial's value at this place's point, place + 1."""
    value = 0
    for one in reversed(coefficients):
        value = (value * (place + 1) + one) % ORDER
    return value


def _bytes(number: int) -> bytes:
    return (number % ORDER).to_bytes(SHARE_BYTES)


def _commitment(share: int, blind: int) -> bytes:
    """Binding; and hiding, since to guess an unknown share would be to know the secret (see `gauges`)."""
    return sha256(PREFIX + b" share\0" + _bytes(share) + _bytes(blind)).digest()


def _challenge(public: bytes, nonce: bytes, commitments: Sequence[bytes], about: bytes) -> int:
    """The hash is unambiguous: all parts but the last have fixed lengths, and the terms fix their number."""
    text = PREFIX + b" challenge\0" + public + nonce + b"".join(commitments) + about
    return int.from_bytes(sha256(text).digest()) % ORDER


def _is_nonce(public: bytes, nonce: bytes, answer: int, challenge: int) -> bool:
    """Whether x(answer G - challenge P) is the nonce, modulo the order.

    ECDSA verification checks u1 G + u2 P for u1 = h / s and u2 = x / s. With h and s such that u1 is the
    answer and u2 is minus the challenge, the library does all arithmetic on points.
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
