"""Noise made on a device is that of the host, bit for bit: on a GPU, or in Triton's interpreter.

The interpreter must be asked for before triton is first imported, hence the process of its own, which runs
the tests of this file.
"""

import os
import subprocess
import sys
from bisect import bisect_right

import numpy as np
import pytest
import torch

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.noise import gaussian
from fl_dp.engine.noise.discrete_gaussian import BASE_WIDTH, CHUNK, DiscreteGaussian, table
from fl_dp.engine.noise.grid import NoiseGrid
from fl_dp.engine.noise.randomness import BLOCK, Randomness
from fl_dp.errors import ConfigError

triton = pytest.importorskip("triton")

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
HERE = GPU or os.environ.get("TRITON_INTERPRET") == "1"
here = pytest.mark.skipif(not HERE, reason="needs a GPU or Triton's interpreter")
SOURCE, OTHER = Randomness(bytes(range(32))), Randomness(bytes(range(1, 33)))
TINY = np.iinfo(np.int64).min


@pytest.mark.skipif(HERE, reason="the tests run here")
@pytest.mark.parametrize("which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_in_the_interpreter(which):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", which, __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "." in done.stdout.replace("s", "")


@pytest.fixture
def device(monkeypatch):
    from fl_dp.engine.noise import device

    if not GPU:
        monkeypatch.setattr(
            device, "LANES", 1 << 15
        )  # fewer programs: the interpreter runs one after the other
    return device


def _integers(count, seed=0, most=2**62):
    return torch.from_numpy(np.random.default_rng(seed).integers(-most, most, count))


def _drawn(levels, source, count):
    noise = DiscreteGaussian(levels, source)
    return np.concatenate([noise.take(min(CHUNK, count - start)) for start in range(0, count, CHUNK)])


@here
def test_the_stream_is_chacha20_up_to_its_last_block(device):
    key = device.key_of(SOURCE, DEVICE)
    for number, start, blocks in ((0, 0, 3), (1, 5, 700), (2, (1 << 32) - 2, 2)):
        words = device.keystream(key, number, torch.tensor([start], device=DEVICE), blocks).cpu().numpy()
        expected = SOURCE.stream(number, start).words(BLOCK // 4 * blocks, np.uint32)
        np.testing.assert_array_equal(words.view(np.uint32), expected)


@here
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 1023, 1026, 100_001])
def test_the_digest_is_that_of_the_host(count, device, monkeypatch):
    if count == 1023:
        monkeypatch.setattr(device, "_GROUP", 64)  # as on a GPU
    for values in (_integers(count, seed=count), torch.full((count,), -1)):
        found = device.digest(values.to(DEVICE), SOURCE).cpu().numpy().tobytes()
        assert found == SOURCE.digest(values.numpy())


@here
@pytest.mark.parametrize(
    "secret", ["ff" * 32, "00" * 32, "01" + "00" * 15 + "ff" * 16, "00" * 16 + "ff" * 16]
)
def test_the_digest_carries_at_the_ends_of_its_range(secret, device, monkeypatch):
    """Points 0, 1 and the largest; pads that overflow; values whose sums come close to the prime."""
    monkeypatch.setattr(Randomness, "child", lambda self, name: Randomness(bytes.fromhex(secret)))
    for values in (torch.tensor([-5, -1]), torch.tensor([TINY, 1, 0])):
        found = device.digest(values.to(DEVICE), SOURCE).cpu().numpy().tobytes()
        assert found == SOURCE.digest(values.numpy())


@here
@pytest.mark.parametrize(
    ("count", "levels", "keyed"),
    [
        (1, 3, True),
        (7, 4, False),
        (CHUNK - 1, 6, True),
        (2 * CHUNK, 3, False),
        (3 * CHUNK + 9, 5, True),
        pytest.param(3 * 10**6, 3, True, marks=pytest.mark.slow),
    ],
)
def test_the_numbers_are_those_of_the_host(count, levels, keyed, device, monkeypatch):
    monkeypatch.setattr(device, "LANES", min(1 << 15, triton.next_power_of_2(levels * count)))
    monkeypatch.setattr(device, "SEGMENT", 2 * CHUNK)  # several, whose further words follow one another
    before = _integers(count, most=2**40)
    found = before.clone().to(DEVICE)
    device.add_noise(found, levels, SOURCE, OTHER if keyed else None)
    source = SOURCE.keyed_by(OTHER.digest(before.numpy())) if keyed else SOURCE
    np.testing.assert_array_equal((found.cpu() - before).numpy(), _drawn(levels, source, count))


@here
def test_further_words_that_were_not_made_beforehand_are_the_same(device, monkeypatch):
    monkeypatch.setattr(device, "_SPARE", 1 << 20)
    found = torch.zeros(9_000, dtype=torch.int64, device=DEVICE)
    device.add_noise(found, 3, SOURCE, None)
    np.testing.assert_array_equal(found.cpu().numpy(), _drawn(3, SOURCE, 9_000))


@here
def test_bits_of_the_tails_and_at_thresholds_decide_as_128_bits_do(device, monkeypatch):
    """Each lookup gets 64 bits from here; where they are a threshold's own, the stream's last bits decide."""
    at = table(BASE_WIDTH)._thresholds
    ends = [0, 1, (1 << 128) - 1, *at[:60], *at[-60:]]
    words = [(number >> 64) + step & (1 << 64) - 1 for number in (*ends, *at[::7]) for step in (-1, 0, 1)]
    words = [word for word in words if table(BASE_WIDTH)._first[word >> 48] == np.iinfo(np.int16).min]
    rest = [word & (1 << 48) - 1 for word in words]
    parts = {
        0: np.array([word >> 48 for word in [*words, *words]], np.uint16),
        1: np.array(rest, np.uint64) << np.uint64(16),
    }
    made = {number: torch.from_numpy(part.copy().view(np.int32)) for number, part in parts.items()}
    monkeypatch.setattr(device, "keystream", lambda key, number, start, blocks: made[number].to(DEVICE))
    monkeypatch.setattr(device, "_SPARE", 1)
    found, used = device.drawn(
        len(words), 0, device.key_of(SOURCE, DEVICE), torch.zeros(1, dtype=torch.int64)
    )
    last = SOURCE.stream(2).words(len(words), np.uint64)
    whole = [word << 64 | int(low) for word, low in zip(words, last, strict=True)]
    expected = [bisect_right(at, number) + table(BASE_WIDTH).least for number in whole]
    assert found.tolist() == expected
    assert used.tolist() == [len(words)]
    assert len(words) > 900
    ties = sum(number >> 64 in {one >> 64 for one in at} for number in whole)
    assert ties > 300


def _sums():
    torch.manual_seed(0)
    return {
        "matrix": torch.randn(30, 20),
        "channels last": torch.randn(4, 3, 9, 9).to(memory_format=torch.channels_last),
        "double": torch.randn(5, dtype=torch.float64),
        "half": torch.randn(7).half(),
        "complex": torch.randn(6, 2, dtype=torch.complex64),
        "gaps": torch.randn(8, 8)[:, ::2],
        "huge": torch.tensor(1e30),
        "empty": torch.zeros(0, 4),
    }


@here
@pytest.mark.parametrize("multiplier", [0.3, 40.0])
def test_a_noisy_sum_is_that_of_the_host(multiplier, device, monkeypatch):
    sums = _sums()

    def noisy(grads):
        clipped = ClippedSum(grads, 1.5, torch.zeros(0))
        return gaussian.add_gaussian_noise(clipped, noise_multiplier=multiplier, generator=SOURCE)

    expected = noisy(sums)
    monkeypatch.setattr(gaussian, "has_triton", lambda device: True)
    found = noisy({name: one.to(DEVICE) for name, one in sums.items()})
    for name, one in expected.items():
        assert found[name].dtype == one.dtype
        assert found[name].stride() == one.stride()
        assert torch.equal(found[name].cpu(), one), name


@here
def test_fresh_noise_differs_each_time(device, monkeypatch):
    monkeypatch.setattr(gaussian, "has_triton", lambda device: True)
    clipped = ClippedSum({"w": torch.zeros(9, device=DEVICE)}, 1.0, torch.zeros(0))
    one, other = (
        gaussian.add_gaussian_noise(clipped, noise_multiplier=1.0, generator="secure")["w"] for _ in range(2)
    )
    assert not torch.equal(one, other)


@here
def test_more_numbers_than_a_stream_covers_are_refused(device):
    many = torch.empty(1, dtype=torch.int64, device=DEVICE).expand((1 << 38) // 12 + 1)
    with pytest.raises(ConfigError, match="more noise than one stream has"):
        device.add_noise(many, 6, SOURCE, None)


@pytest.mark.parametrize("spacing", [1.0, 0.1, 3e-7])
def test_a_sum_becomes_its_nearest_integers(spacing):
    values = torch.cat(
        [torch.randn(1000) * 10.0**scale for scale in range(-9, 30, 3)] + [torch.arange(-9, 9) / 2]
    )
    expected = np.clip(np.rint(values.double().numpy() / spacing), -(2.0**62), 2.0**62).astype(np.int64)
    found = gaussian.multiples_of([values.to(DEVICE)], NoiseGrid(spacing, levels=3, deviation=1.0))
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
