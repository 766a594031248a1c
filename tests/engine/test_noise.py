"""Noise has the stated standard deviation, comes from full entropy, and is never nothing."""

import hashlib
import math
import struct

import pytest
import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise import add_gaussian_noise, keyed_generator, system_generator
from fl_dp.errors import ConfigError


def _zeros(sensitivity=2.0, n=40_000, dtype=torch.float32):
    return ClippedSum({"w": torch.zeros(n, dtype=dtype), "b": torch.zeros(10)}, sensitivity, torch.zeros(0))


@pytest.mark.parametrize("multiplier", [0.5, 1.1, 8.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(7), "secure"], ids=["seeded", "secure"])
def test_standard_deviation_is_multiplier_times_sensitivity(multiplier, dtype, generator):
    noise = add_gaussian_noise(_zeros(dtype=dtype), noise_multiplier=multiplier, generator=generator)["w"]
    n, sigma = len(noise), 2.0 * multiplier
    assert abs(float(noise.mean())) < 5 * sigma / math.sqrt(n)
    assert abs(float(noise.std()) / sigma - 1) < 5 / math.sqrt(2 * n)
    kurtosis = float((noise / sigma).pow(4).mean())
    assert abs(kurtosis - 3) < 5 * math.sqrt(96 / n)


@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(0), "secure"], ids=["seeded", "secure"])
def test_noise_is_added_to_the_sum(generator):
    clipped = ClippedSum({"w": torch.full((50,), 100.0)}, 1e-3, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    assert torch.allclose(noisy["w"], clipped.grads["w"], atol=0.01)
    assert not torch.equal(noisy["w"], clipped.grads["w"])


def test_same_generator_state_same_noise():
    draws = [
        add_gaussian_noise(_zeros(), noise_multiplier=1.0, generator=torch.Generator().manual_seed(3))["w"]
        for _ in range(2)
    ]
    assert torch.equal(*draws)


@pytest.mark.parametrize("generator", [system_generator(), "secure"], ids=["system", "secure"])
def test_parameters_get_noise_of_their_own(generator):
    clipped = ClippedSum({"a": torch.zeros(9), "b": torch.zeros(9)}, 1.0, torch.zeros(0))
    noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=generator)
    assert not torch.equal(noisy["a"], noisy["b"])


@pytest.mark.parametrize("generator", [torch.Generator(), "secure"], ids=["seeded", "secure"])
@pytest.mark.parametrize(
    ("dtype", "noisy_dtype"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_noise_is_in_float32_at_least_and_the_shape_stays(generator, dtype, noisy_dtype):
    grads = {"w": torch.zeros(2, 3, dtype=dtype), "scalar": torch.zeros((), dtype=dtype)}
    noisy = add_gaussian_noise(
        ClippedSum({**grads, "empty": torch.zeros(0, 4, dtype=dtype)}, 1.0, torch.zeros(0)),
        noise_multiplier=1.0,
        generator=generator,
    )
    assert {name: noise.shape for name, noise in noisy.items()} == {
        "w": (2, 3),
        "scalar": (),
        "empty": (0, 4),
    }
    assert {noise.dtype for noise in noisy.values()} == {noisy_dtype}


def test_system_generators_differ_in_more_than_32_bits():
    """manual_seed(s) and manual_seed(s + 2^32) are one stream on CPUs: such a seed can be guessed."""
    states = [system_generator().get_state()[24 : 24 + 8 * 624].view(torch.int64) for _ in range(2)]
    assert (states[0] == states[1]).float().mean() < 0.02
    assert states[0].unique().numel() > 600
    draws = torch.randn(20_000, generator=system_generator())
    assert abs(float(draws.std()) - 1) < 0.05


def _numbers(generator):
    return torch.rand(8, dtype=torch.float64, generator=generator)


def test_a_key_decides_all_numbers_and_another_key_gives_others():
    key = bytes(range(32))
    assert torch.equal(_numbers(keyed_generator(key)), _numbers(keyed_generator(key)))
    for other in (bytes(32), key[:-1] + b"\0", key + b"\0"):
        assert not (_numbers(keyed_generator(key)) == _numbers(keyed_generator(other))).any()


def test_a_key_fills_the_whole_state_by_shake_256():
    key = b"k" * 40
    words = struct.unpack("<624I", hashlib.shake_256(key).digest(4 * 624))
    state = keyed_generator(key).get_state()[24 : 24 + 8 * 624].view(torch.int64)
    assert tuple(state.tolist()) == words


def test_a_key_that_is_too_short_is_refused():
    with pytest.raises(ConfigError, match="A key of 31 bytes: expected at least 32"):
        keyed_generator(b"k" * 31)


def test_a_generator_whose_state_is_not_known_is_not_touched(monkeypatch):
    """Another PyTorch may keep another state: writing into it could leave noise that can be guessed."""
    monkeypatch.setattr("fl_dp.engine.noise._STATE_BYTES", 5057)
    with pytest.raises(RuntimeError, match="5056 bytes is not known"):
        system_generator()


@pytest.mark.parametrize("multiplier", [0.0, -1.0, float("nan"), float("inf")])
def test_a_multiplier_that_protects_nothing_is_refused(multiplier):
    with pytest.raises(ConfigError, match="noise_multiplier"):
        add_gaussian_noise(_zeros(), noise_multiplier=multiplier, generator=torch.Generator())


def test_an_unbounded_sum_is_refused():
    with pytest.raises(ConfigError, match="sensitivity=inf"):
        add_gaussian_noise(_zeros(math.inf), noise_multiplier=1.0, generator=torch.Generator())


def test_a_source_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match=r"'os'.*'secure'"):
        add_gaussian_noise(_zeros(), noise_multiplier=1.0, generator="os")


def test_a_seed_fills_the_624_words_and_nothing_else():
    """What stands before and behind them in torch's state are its counters and a kept normal number."""
    fresh, seeded = torch.Generator().get_state(), keyed_generator(b"k" * 32).get_state()
    words = slice(24, 24 + 8 * 624)
    same = fresh == seeded
    assert same[: words.start].all()
    assert same[words.stop :].all()
    found = seeded[words].view(torch.int64)
    assert (found >= 0).all()
    assert (found < 2**32).all()
    assert len(found.unique()) == 624
