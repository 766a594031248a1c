"""Masks: streams of uniform 64-bit numbers, added to or subtracted from a vector modulo 2^64."""

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fl_dp.federation.secure_sum.keys import agreed, derived

Words = NDArray[np.uint64]
_BLOCK = 16  # bytes of a block of AES
_CHUNK = 2**15  # numbers at a time: 256 KiB, which fit the processor's cache
_ZEROS = bytes(8 * _CHUNK)


def add_stream(total: Words, key: bytes, sign: int = 1) -> None:
    """Add to `total`, in place, the key stream of AES-256 in counter mode (sign -1: subtract it).

    Little-endian on every machine. A key serves for one stream only, so the counter starts at zero.
    """
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK))).encryptor()
    buffer = np.empty(8 * _CHUNK + _BLOCK, np.uint8)
    change: Any = np.add if sign > 0 else np.subtract
    for start in range(0, len(total), _CHUNK):
        part = total[start : start + _CHUNK]
        cipher.update_into(_ZEROS[: 8 * len(part)], buffer.data)
        change(part, buffer[: 8 * len(part)].view("<u8"), out=part)


def own_key(seed: bytes, digest: bytes, site: str) -> bytes:
    """The key of the mask that a member adds for itself."""
    return derived(seed, digest, "own mask", site)


def pair_key(private: bytes, public: bytes, digest: bytes, site: str, other: str, name: str) -> bytes:
    """The key of the mask that two members share; one of them adds it, the other subtracts it.

    private: of `site`; public: of `other`; name: of `other`, for an error.
    """
    low, high = sorted((site, other))
    return derived(agreed(private, public, name), digest, "pair mask", low, high)


def pair_sign(site: str, other: str) -> int:
    """The sign with which `site` adds the mask that it shares with `other`: 1 for the lower site key."""
    return 1 if site < other else -1
