"""Generators of torch start from full entropy, and a key decides all that they draw."""

import hashlib
import struct

import pytest
import torch

from fl_dp.engine.noise.generators import keyed_generator, system_generator
from fl_dp.errors import ConfigError


def test_system_generators_differ_in_more_than_32_bits():
    """manual_seed(s) and manual_seed(s + 2^32) are one stream on CPUs: such a seed can be guessed."""
    states = [system_generator().get_state()[24 : 24 + 8 * 624].view(torch.int64) for _ in range(2)]
    assert (states[0] == states[1]).float().mean() < 0.02
    assert states[0].unique().numel() > 600
    draws = torch.randn(20_000, generator=system_generator())
    assert abs(float(draws.std()) - 1) < 0.05


def test_a_key_decides_all_numbers_and_another_key_gives_others():
    def numbers(key):
        return torch.rand(8, dtype=torch.float64, generator=keyed_generator(key))

    key = bytes(range(32))
    assert torch.equal(numbers(key), numbers(key))
    for other in (bytes(32), key[:-1] + b"\0", key + b"\0"):
        assert not (numbers(key) == numbers(other)).any()


def test_a_key_fills_the_624_words_by_shake_256_and_nothing_else():
    """What stands before and behind them in torch's state are its counters and a kept normal number."""
    key, words = b"k" * 40, slice(24, 24 + 8 * 624)
    fresh, seeded = torch.Generator().get_state(), keyed_generator(key).get_state()
    expected = struct.unpack("<624I", hashlib.shake_256(key).digest(4 * 624))
    assert tuple(seeded[words].view(torch.int64).tolist()) == expected
    same = fresh == seeded
    assert same[: words.start].all()
    assert same[words.stop :].all()


def test_a_key_that_is_too_short_is_refused():
    with pytest.raises(ConfigError, match="A key of 31 bytes: expected at least 32"):
        keyed_generator(b"k" * 31)


def test_a_generator_whose_state_is_not_known_is_not_touched(monkeypatch):
    """Another PyTorch may keep another state: writing into it could leave noise that can be guessed."""
    monkeypatch.setattr("fl_dp.engine.noise.generators._STATE_BYTES", 5057)
    with pytest.raises(RuntimeError, match="5056 bytes is not known"):
        system_generator()
