"""Fresh keys of one attempt, on the curve P-256 (FIPS 186-5), and keys derived from them by HKDF with SHA-256
(RFC 5869).

A private key is any number from 1 to below a prime, `ORDER`. So a key can itself be dealt in shares
(`key_shares.py`). Every derived key is bound to the digest of the terms, to its use, and to its sites.
"""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fl_dp.errors import DeclinedError

SECRET_BYTES, KEY_BYTES = 32, 33  # of a private key, of a public one
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the group, a prime
CURVE = ec.SECP256R1()
PREFIX = b"fl_dp secure sum 3"  # of all hash inputs, for domain separation
_NONCE = 12
OVERHEAD = _NONCE + 16  # bytes that sealing adds


def fresh_secret() -> bytes:
    """A private key from the operating system's entropy; a seed is one, too."""
    return (1 + secrets.randbelow(ORDER - 1)).to_bytes(SECRET_BYTES)


def public_of(private: bytes) -> bytes:
    """The public key, as a compressed point. ValueError for a number that is no private key."""
    key = ec.derive_private_key(int.from_bytes(private), CURVE)
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def derived(secret: bytes, digest: bytes, use: str, *sites: str) -> bytes:
    """A key of 32 bytes for one use. digest: of the terms; sites: in the order that the use defines."""
    info = b"\0".join([PREFIX, use.encode(), *(site.encode() for site in sites)])
    return HKDF(SHA256(), SECRET_BYTES, salt=digest, info=info).derive(secret)


def agreed(private: bytes, public: bytes, whose: str) -> bytes:
    """The shared secret (ECDH); DeclinedError for a public key that is no point of the curve."""
    own = ec.derive_private_key(int.from_bytes(private), CURVE)
    try:
        return own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, public))
    except ValueError:
        raise DeclinedError(f"{whose} has an invalid key for a secure sum.") from None


def agrees(public: bytes) -> bool:
    """Whether a secret can be agreed on with this public key: it is a point of the curve."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, public)
    except ValueError:
        return False
    return True


def are_distinct(public: list[bytes]) -> bool:
    """Whether no key occurs twice. A point and its negative, which differ in the first byte, count as one."""
    return len({key[1:] for key in public}) == len(public)


def sealed(key: bytes, text: bytes, about: bytes) -> bytes:
    """ChaCha20-Poly1305 (RFC 8439), with a random nonce in front. about: the associated data."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, about)


def unsealed(key: bytes, content: bytes, about: bytes) -> bytes | None:
    """The text; None unless it was sealed with this key and this associated data."""
    try:
        return ChaCha20Poly1305(key).decrypt(content[:_NONCE], content[_NONCE:], about)
    except (InvalidTag, ValueError):
        return None
