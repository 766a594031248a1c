"""Masks are AES-256 in counter mode, cancel in pairs, and look like nothing."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fl_dp.errors import DeclinedError
from fl_dp.federation.secure_sum.keys import agreed, derived, fresh_secret, public_of, sealed, unsealed
from fl_dp.federation.secure_sum.masks import add_stream, own_key, pair_key, pair_sign

KEY, LOW, HIGH = b"k" * 32, "0" * 64, "1" * 64


@pytest.mark.parametrize("count", [1, 1000, 2**15, 2**15 + 1, 100_001])
def test_a_stream_is_aes_in_counter_mode(count):
    total = np.arange(count, dtype=np.uint64)
    add_stream(total, KEY)
    whole = Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor().update(bytes(8 * count))
    assert (total - np.arange(count, dtype=np.uint64) == np.frombuffer(whole, "<u8")).all()
    add_stream(total, KEY, -1)
    assert (total == np.arange(count)).all()


def test_both_ends_of_a_pair_have_one_mask_with_two_signs():
    one, two = fresh_secret(), fresh_secret()
    digest = bytes(32)
    found = pair_key(one, public_of(two), digest, LOW, HIGH, "x")
    assert found == pair_key(two, public_of(one), digest, HIGH, LOW, "x")
    assert (pair_sign(LOW, HIGH), pair_sign(HIGH, LOW)) == (1, -1)


def test_a_key_is_for_one_digest_one_use_and_one_pair():
    one, two = fresh_secret(), public_of(fresh_secret())
    keys = {
        pair_key(one, two, bytes(32), LOW, HIGH, "x"),
        pair_key(one, two, b"1" * 32, LOW, HIGH, "x"),
        pair_key(one, two, bytes(32), LOW, "2" * 64, "x"),
        own_key(one, bytes(32), LOW),
        own_key(one, bytes(32), HIGH),
        derived(agreed(one, two, "x"), bytes(32), "key shares", LOW, HIGH),
        derived(agreed(one, two, "x"), bytes(32), "key shares", HIGH, LOW),
    }
    assert len(keys) == 7


@pytest.mark.parametrize(
    "point", [b"", bytes(33), b"\2" + b"\7" * 32, b"\2" + b"\xff" * 32, b"\5" + bytes(32)]
)
def test_a_key_that_is_no_point_of_the_curve_is_refused(point):
    with pytest.raises(DeclinedError, match="site-x has an invalid key"):
        agreed(fresh_secret(), point, "site-x")


def test_sealed_bytes_open_only_with_their_key_and_purpose():
    content = sealed(KEY, b"text", b"about")
    assert unsealed(KEY, content, b"about") == b"text"
    assert unsealed(KEY, content, b"other") is None
    assert unsealed(b"o" * 32, content, b"about") is None
    assert unsealed(KEY, content[:-1], b"about") is None
    assert unsealed(KEY, b"", b"about") is None
    assert sealed(KEY, b"text", b"about") != content


def test_keys_are_those_of_this_version():
    """Members of two versions would mask with other keys, and the sum be lost: then the prefixes change."""
    pair = pair_key(KEY, public_of(b"o" * 32), bytes(32), LOW, HIGH, "x")
    assert own_key(KEY, bytes(32), LOW).hex()[:16] == "ba371200083b8439"
    assert pair.hex()[:16] == "357afb1c5c8dfaf4"
