"""Secret bytes: the same ones give the same numbers, others give others, and none tells of another."""

import itertools

import numpy as np
import pytest
import torch

from fl_dp.engine.noise.randomness import Randomness
from fl_dp.errors import ConfigError

KEY = bytes(range(32))


# RFC 8439, 2.3.2: the block of this key with the counter 1 and the nonce 00:00:00:09:00:00:00:4a:00:00:00:00.
BLOCK = (
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)
# The same, 2.5.2: key and tag of the words "Cryptographic Forum Research Group".
MAC_KEY = bytes.fromhex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b")
MAC = "a8061dc1305136c6c22b8baf0c0127a9"


def test_a_stream_is_chacha20_of_the_rfc():
    nonce = int.from_bytes(bytes.fromhex("000000090000004a00000000"), "little")
    stream = Randomness(KEY).stream(nonce, block=1)
    found = b"".join(stream.words(count, np.uint16).tobytes() for count in (3, 8, 21))
    assert found.hex() == BLOCK
    assert (
        stream.words(9, np.uint32).tolist() == Randomness(KEY).stream(nonce, 2).words(9, np.uint32).tolist()
    )


def test_a_stream_ends_before_its_counter_wraps():
    stream = Randomness(KEY).stream(0, (1 << 32) - 1)
    stream.words(15, np.uint32)
    with pytest.raises(ConfigError, match="would repeat itself"):
        stream.words(2, np.uint32)


def test_a_digest_is_poly1305_of_the_rfc(monkeypatch):
    monkeypatch.setattr(Randomness, "child", lambda self, name: Randomness(MAC_KEY))
    words = np.frombuffer(b"Cryptographic Forum Research Group", np.uint8)
    assert Randomness(KEY).digest(words).hex() == MAC


def test_a_digest_keys_a_source_by_a_block_of_chacha20():
    digest = bytes.fromhex("01000000000000090000004a00000000")  # the vector's counter and nonce
    assert Randomness(KEY).keyed_by(digest).key.hex() == BLOCK[:64]


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
    digest = source.digest(numbers)
    assert len(digest) == 16
    for place in (0, 500, 999):
        other = numbers.copy()
        other[place] += 1
        assert source.digest(other) != digest
    assert source.digest(numbers[:-1]) != digest
    assert Randomness(KEY[::-1]).digest(numbers) != digest


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


def test_gpus_draw_different_masks_and_the_first_those_that_it_draws_alone(monkeypatch):
    given = []
    on_cpu = Randomness.generator
    monkeypatch.setattr(Randomness, "generator", lambda source, device: on_cpu(source))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: given.append((str(device), state)))
    for count in (1, 3):
        with Randomness(KEY).in_torch(*(torch.device("cuda", number) for number in range(count))):
            pass
    alone, *together = given
    assert [name for name, _ in together] == ["cuda:0", "cuda:1", "cuda:2"]
    assert torch.equal(alone[1], together[0][1])
    assert torch.equal(alone[1], on_cpu(Randomness(KEY).child("cuda")).get_state())  # as NUMERICS 4 has it
    assert len({bytes(state.tolist()) for _, state in together}) == 3
