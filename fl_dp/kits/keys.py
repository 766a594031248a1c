"""Signing keys (Ed25519, RFC 8032). A signature is made for one purpose and is invalid for any other."""

from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError

KEY_CHARACTERS = 64  # of a public key, in hexadecimal digits
_OTHERS = 0o077  # permissions of group and world


class SigningKey:
    """A private key. public: the key that checks its signatures, in hexadecimal digits."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    @classmethod
    def generate(cls) -> Self:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> Self:
        """The key in the file `path`; ConfigError if there is none, or if others may read it."""
        check_own(path)
        return cls(load_private(path, Ed25519PrivateKey))

    def save(self, path: Path) -> None:
        save_private(self._key, path)

    def sign(self, purpose: str, body: bytes) -> bytes:
        """The signature of `body` for `purpose`; 64 bytes."""
        return self._key.sign(_covered(purpose, body))


def load_private(path: Path, kind: Any) -> Any:
    """The private key in the file `path`; ConfigError if there is none, or one of another kind."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: not a readable key: {error}.") from None
    if not isinstance(key, kind):
        raise ConfigError(f"{path}: expected a key of another kind, as fl-dp writes them.")
    return key


def save_private(key: Ed25519PrivateKey | EllipticCurvePrivateKey, path: Path) -> None:
    write_own(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def write_own(path: Path, content: bytes) -> None:
    """Write the file whole, readable by its owner alone."""
    write_whole(path, lambda file: file.write(content), secret=True)


def check_own(path: Path) -> None:
    """ConfigError if anybody but its owner may read or change the file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path}: not a readable key: {error.strerror}.") from None
    if mode & _OTHERS:
        raise ConfigError(
            f"{path}: other users can read or change this key; make it private: chmod 600 {path}"
        )


def is_signed(public: str, purpose: str, body: bytes, signature: bytes) -> bool:
    """Whether the owner of the key `public` has signed `body` for `purpose`."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, _covered(purpose, body))
    except (InvalidSignature, ValueError):
        return False
    return True


def is_public_key(text: object) -> bool:
    """Whether `text` looks like a public key."""
    return (
        isinstance(text, str)
        and len(text) == KEY_CHARACTERS
        and all(digit in "0123456789abcdef" for digit in text)
    )


def fingerprint(public: str) -> str:
    """A key in groups of digits, for comparison by eye."""
    return " ".join(public[start : start + 8] for start in range(0, len(public), 8))


def _covered(purpose: str, body: bytes) -> bytes:
    return b"fl_dp 1 " + purpose.encode() + b"\0" + body
