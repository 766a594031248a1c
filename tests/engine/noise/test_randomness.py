"""Secret bytes: the same ones give the same numbers, others give others, and none tells of another."""

import itertools

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError

KEY = bytes(range(32))


def test_a_stream_is_aes_256_in_counter_mode():
    for number in (0, 1, 7):
        counter = number.to_bytes(8, "big") + bytes(8)
        expected = Cipher(algorithms.AES(KEY), modes.CTR(counter)).encryptor().update(bytes(64))
        stream = Randomness(KEY).stream(number)
        found = b"".join(stream.words(count, np.uint16).tobytes() for count in (3, 8, 21))
        assert found == expected


def test_streams_and_children_differ():
    source = Randomness(KEY)
    names = [(), ("",), ("a",), ("a", "b"), ("ab",), (1,), ("1",), (b"1",), (11,), (1, 1), ("a", 1), ("a1",)]
    children = [source.child(*name) for name in names]
    for one, other in itertools.combinations([source, *children, Randomness(KEY[::-1])], 2):
        assert one.key != other.key
    words = {source.stream(number).words(1, np.uint64)[0] for number in range(100)}
    assert len(words) == 100
    assert source.child("a", 1).key == Randomness(KEY).child("a", 1).key


def test_a_key_that_is_too_short_is_refused_and_none_is_shown():
    with pytest.raises(ConfigError, match="A key of 31 bytes: expected at least 32"):
        Randomness(b"k" * 31)
    assert "key" not in repr(Randomness(KEY))


def test_the_systems_differ():
    assert Randomness.system().key != Randomness.system().key


def test_a_digest_tells_numbers_apart_but_not_how_they_are_cut():
    source, numbers = Randomness(KEY), np.arange(1000)
    digest = source.digest([numbers])
    assert digest == source.digest([numbers[:17], numbers[17:]])
    assert len(digest) == 16
    for place in (0, 500, 999):
        other = numbers.copy()
        other[place] += 1
        assert source.digest([other]) != digest
    assert source.digest([numbers[:-1]]) != digest
    assert Randomness(KEY[::-1]).digest([numbers]) != digest


def test_torch_draws_from_it_and_goes_on_as_before():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with Randomness(KEY).in_torch(torch.device("cpu")):
        first = torch.rand(9)
    with Randomness(KEY).in_torch(torch.device("cpu")):
        again = torch.rand(9)
    with Randomness(KEY).child("x").in_torch(torch.device("cpu")):
        other = torch.rand(9)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
