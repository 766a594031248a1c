"""Gaussian noise for a clipped sum, and where its randomness comes from."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from fl_dp.engine.clipping import ClippedSum
from fl_dp.engine.secure_noise import secure_normal
from fl_dp.errors import ConfigError

# "secure" draws from a cryptographic generator (see secure_noise.py), on the CPU and at about nine
# times the cost of a torch.Generator, which can be seeded and whose state can be saved.
NoiseSource = torch.Generator | Literal["secure"]

_STATE_BYTES = 5056  # of torch's CPU generator: 24 bytes of head, 624 words in 8 bytes each, a tail
_HEAD, _WORDS = 24, 624
_SEED_BYTES = 4 * _WORDS
_KEY_BYTES = 32


def system_generator(device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that starts from the operating system's entropy.

    On CPUs `manual_seed` would not do: PyTorch keeps only 32 bits of the seed, so that all noise
    streams can be tried out. Here all 624 words of the Mersenne twister are drawn instead. CUDA's
    Philox takes 64 bits of seed.
    """
    return _generator(secrets.token_bytes(_SEED_BYTES), device)


def keyed_generator(key: bytes, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose state is `key` drawn out by SHAKE-256 (FIPS 202): the same key, the same numbers.

    For whoever does not know the key it is as good as `system_generator`; whoever does can take the noise
    away again. A key is therefore at least 32 bytes of entropy, never used twice, and kept as the data are.
    """
    if len(key) < _KEY_BYTES:
        raise ConfigError(f"A key of {len(key)} bytes: expected at least {_KEY_BYTES}.")
    return _generator(hashlib.shake_256(key).digest(_SEED_BYTES), device)


def _generator(seed: bytes, device: torch.device | str) -> torch.Generator:
    """A generator that starts from as many of the `seed`'s bytes as PyTorch can take."""
    generator = torch.Generator(device)
    if generator.device.type != "cpu":
        return generator.manual_seed(int.from_bytes(seed[:8], "little") >> 1)
    state = generator.get_state()
    if len(state) != _STATE_BYTES:
        raise RuntimeError(f"torch {torch.__version__}: generator state of {len(state)} bytes is not known.")
    words = torch.frombuffer(bytearray(seed), dtype=torch.int32).to(torch.int64) & 0xFFFFFFFF
    state[_HEAD : _HEAD + 8 * _WORDS] = words.view(torch.uint8)
    return generator.set_state(state)


def add_gaussian_noise(
    clipped: ClippedSum, *, noise_multiplier: float, generator: NoiseSource
) -> Mapping[str, Tensor]:
    """The Gaussian mechanism: each entry gets noise of standard deviation multiplier * sensitivity.

    Call once for each logical batch, with all its physical batches added up. The result is in
    float32 at least, and "secure" noise is added in float64 before it is rounded to that.
    Raises ConfigError for a multiplier or sensitivity that protects nothing.
    """
    deviation = noise_multiplier * clipped.sensitivity
    if not 0 < deviation < float("inf"):
        raise ConfigError(
            f"Expected noise_multiplier={noise_multiplier} times sensitivity={clipped.sensitivity} "
            "to be finite and > 0."
        )
    if generator != "secure" and not isinstance(generator, torch.Generator):
        raise ConfigError(f"generator={generator!r}: expected a torch.Generator or 'secure'.")
    return {name: _add_noise(grad, deviation, generator) for name, grad in clipped.grads.items()}


def _add_noise(grad: Tensor, deviation: float, generator: NoiseSource) -> Tensor:
    dtype = torch.promote_types(grad.dtype, torch.float32)
    if generator == "secure":
        noise = secure_normal(grad.shape).mul_(deviation)
        return noise.add_(grad.cpu()).to(grad.device, dtype)
    noise = torch.empty(grad.shape, dtype=dtype, device=generator.device)
    noise = noise.normal_(0.0, deviation, generator=generator)
    return (noise if noise.device == grad.device else noise.to(grad.device)).add_(grad)
