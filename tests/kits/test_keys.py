"""Keys: RFC 8032's own vectors, one purpose for each signature, one owner for each file."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fl_dp.errors import ConfigError
from fl_dp.kits.keys import SigningKey, fingerprint, is_public_key, is_signed


def test_a_key_is_ed25519s() -> None:
    """RFC 8032, 7.1, test 1."""
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(secret))
    assert key.public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def test_a_signature_is_of_one_key_purpose_and_body() -> None:
    key, other = SigningKey.generate(), SigningKey.generate()
    signature = key.sign("reply", b"body")
    assert is_signed(key.public, "reply", b"body", signature)
    for public, purpose, body, signed in (
        (other.public, "reply", b"body", signature),
        (key.public, "instruction", b"body", signature),
        (key.public, "rep", b"lybody", signature),  # they do not run into each other
        (key.public, "reply", b"bodY", signature),
        (key.public, "reply", b"body", signature[:-1]),
        ("zz", "reply", b"body", signature),
    ):
        assert not is_signed(public, purpose, body, signed)


def test_only_the_owner_can_read_a_saved_key_and_its_fingerprint_is_the_whole_key(tmp_path: Path) -> None:
    key = SigningKey.generate()
    key.save(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(tmp_path / "key").public == key.public
    assert fingerprint(key.public).replace(" ", "") == key.public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_may_read_or_change_is_refused(mode: int, tmp_path: Path) -> None:
    SigningKey.generate().save(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    (tmp_path / "link").symlink_to(tmp_path / "key")
    for path in (tmp_path / "key", tmp_path / "link"):
        with pytest.raises(ConfigError, match=r"other users can read or change this key; .* chmod 600"):
            SigningKey.load(path)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_an_invalid_key_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="not a readable key"):
        SigningKey.load(path)
    with pytest.raises(ConfigError, match="not a readable key"):
        SigningKey.load(tmp_path / "none")


@pytest.mark.parametrize("text", [None, 3, "", "a" * 63, "A" * 64, "g" * 64, "\u0661" * 64])
def test_invalid_public_keys(text: object) -> None:
    assert not is_public_key(text)
