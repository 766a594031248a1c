"""torch generators that start from full entropy. No proof covers what they draw: see `gaussian.py`."""

import hashlib
import secrets

import torch

from fl_dp.errors import ConfigError

_STATE_BYTES = 5056  # of torch's CPU generator: 24 bytes of header, 624 words of 8 bytes each, then a tail
_HEAD, _WORDS = 24, 624
_SEED_BYTES = 4 * _WORDS
_KEY_BYTES = 32


def system_generator(device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that starts from the operating system's entropy.

    On CPUs `manual_seed` is not enough: PyTorch keeps only 32 bits of the seed, so an attacker can try all
    streams of noise. Here all 624 words of the Mersenne twister are drawn instead. On CUDA the Philox
    generator has a 64-bit seed.
    """
    return _generator(secrets.token_bytes(_SEED_BYTES), device)


def keyed_generator(key: bytes, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose state is SHAKE-256 (FIPS 202) of `key`: the same key gives the same numbers.

    Without the key its numbers are as hard to predict as those of `system_generator`. With the key anybody
    can compute the noise and subtract it. So a key must have at least 32 bytes of entropy, be used only once,
    and be kept as secret as the data.
    """
    if len(key) < _KEY_BYTES:
        raise ConfigError(f"A key of {len(key)} bytes: expected at least {_KEY_BYTES}.")
    return _generator(hashlib.shake_256(key).digest(_SEED_BYTES), device)


def _generator(seed: bytes, device: torch.device | str) -> torch.Generator:
    """A generator seeded with `seed`: on CPUs with all of its bytes, elsewhere with 63 bits."""
    generator = torch.Generator(device)
    if generator.device.type != "cpu":
        return generator.manual_seed(int.from_bytes(seed[:8], "little") >> 1)
    state = generator.get_state()
    if len(state) != _STATE_BYTES:
        raise RuntimeError(f"torch {torch.__version__}: generator state of {len(state)} bytes is not known.")
    words = torch.frombuffer(bytearray(seed), dtype=torch.int32).to(torch.int64) & 0xFFFFFFFF
    state[_HEAD : _HEAD + 8 * _WORDS] = words.view(torch.uint8)
    return generator.set_state(state)
