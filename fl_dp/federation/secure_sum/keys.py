"""Fresh keys of one attempt: X25519 (RFC 7748), and HKDF with SHA-256 (RFC 5869) for what comes of them.

Every derived key is bound to the digest of the terms, to its use, and to the sites that it is for.
"""

import hashlib
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fl_dp.errors import DeclinedError

SECRET_BYTES = 32
_NONCE = 12
_ANY = bytes(range(SECRET_BYTES))  # a private key, to try public ones with
OVERHEAD = _NONCE + 16  # bytes by which a sealed text is longer


def fresh_secret() -> bytes:
    """From the operating system's entropy: a seed, or a private key."""
    return secrets.token_bytes(SECRET_BYTES)


def public_of(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seed_digest(seed: bytes) -> bytes:
    """What stands for a seed before it is opened: binding, and hiding since nobody can guess the seed."""
    return hashlib.sha256(b"fl_dp secure sum seed\0" + seed).digest()


def derived(secret: bytes, digest: bytes, use: str, *sites: str) -> bytes:
    """32 bytes for one use. digest: of the terms; sites: in the order that the use knows."""
    info = b"\0".join([b"fl_dp secure sum 1", use.encode(), *(site.encode() for site in sites)])
    return HKDF(SHA256(), SECRET_BYTES, salt=digest, info=info).derive(secret)


def agreed(private: bytes, public: bytes, whose: str) -> bytes:
    """The secret of two X25519 keys; DeclinedError for a public key that makes it known to all."""
    try:
        own = X25519PrivateKey.from_private_bytes(private)
        return own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise DeclinedError(f"{whose} has a key for a secure sum that is none.") from None


def agrees(public: bytes) -> bool:
    """Whether a secret can be agreed on with this public key: it is none of the few that make it known."""
    try:
        agreed(_ANY, public, "")
    except DeclinedError:
        return False
    return True


def sealed(key: bytes, text: bytes, about: bytes) -> bytes:
    """ChaCha20-Poly1305 (RFC 8439) with a random nonce before it. about: what it is bound to besides."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, about)


def unsealed(key: bytes, content: bytes, about: bytes) -> bytes | None:
    """None unless it was sealed with this key and about this."""
    try:
        return ChaCha20Poly1305(key).decrypt(content[:_NONCE], content[_NONCE:], about)
    except (InvalidTag, ValueError):
        return None
