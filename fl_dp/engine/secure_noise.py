"""Gaussian noise whose randomness cannot be guessed and whose last digits do not reveal the value below.

Two attacks are made hard. A generator made for simulation can be recovered from its output. Here the
bits are AES-256 in counter mode, with a fresh key from the operating system for each tensor: there is
no state that could be stolen, saved or copied by a fork. And a floating-point sampler reaches only
some of the numbers near a point, so that the last digits of a noisy value can reveal the value without
noise (Mironov 2012). Here every number is a sum of four (Holohan and Braghin 2021, arXiv 2107.10138):
an attacker must search 2^159 combinations. That is hardening, not a proof.
"""

import math
import secrets

import torch
from torch import Tensor

# Each has 53 random bits. An attacker must search for three; the fourth follows from the sum (section 5).
_SUMMANDS = 4
_CHUNK = 1 << 13  # numbers at a time: their bits stay in the cache


def secure_normal(shape: torch.Size) -> Tensor:
    """Standard normal numbers, float64, on the CPU; needs the package `cryptography`."""
    # Imported here, because it takes 20 ms and only this source needs it.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(secrets.token_bytes(32)), modes.CTR(bytes(16))).encryptor()
    noise = torch.empty(shape, dtype=torch.float64)
    for chunk in torch.split(noise.view(-1), _CHUNK):
        random = bytearray(stream.update(bytes(8 * _SUMMANDS * len(chunk))))
        if random:
            chunk.copy_(normal_from_bits(torch.frombuffer(random, dtype=torch.int64)))
    return noise


def normal_from_bits(bits: Tensor) -> Tensor:
    """(n,) standard normal float64 numbers from (4 n,) uniform int64: sums of four, by inverse transform.

    The uniform numbers are the 2^53 midpoints of an even grid on (-1, 1). The grid is symmetric and does
    not contain -1, 0 or 1, so every summand is finite. Four summands of variance 1/4 have variance 1.
    """
    uniform = ((bits >> 11).double() + 0.5) * 2.0**-52
    return uniform.view(_SUMMANDS, -1).erfinv().sum(0) * math.sqrt(2.0 / _SUMMANDS)
