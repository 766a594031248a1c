import hashlib

import pytest

from fl_dp.data.stable_split import record_digest, split_of


def test_one_in_five_is_a_test_record_and_always_the_same() -> None:
    digests = [hashlib.sha256(str(k).encode()).digest() for k in range(5000)]
    tests = [k for k, digest in enumerate(digests) if split_of(digest) == "test"]
    assert 900 < len(tests) < 1100
    assert tests[:5] == [k for k in range(tests[4] + 1) if int(digests[k].hex()[:16], 16) % 5 == 0]


def test_raw_bytes_are_no_digest() -> None:
    with pytest.raises(ValueError, match="expected a SHA-256 digest"):
        split_of(b'{"label": 0, "x": [1, 2]}')


def test_a_digest_is_of_label_and_contents() -> None:
    assert record_digest(b"pos", b"a film") == hashlib.sha256(b"pos\na film").digest()
