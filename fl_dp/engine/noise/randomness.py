"""Secret bytes, and the byte streams derived from them with AES-256 in counter mode.

Whoever has the secret bytes can compute every number that is drawn, and remove the noise. So they are kept as
secret as the data, and used for one payment alone. Without them the streams look random to everybody whose
computing power is bounded (assuming that AES and BLAKE2 are pseudorandom functions).
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from fl_dp.engine.noise.generators import keyed_generator, keyed_state
from fl_dp.engine.tracing.draws import kept_random_state
from fl_dp.errors import ConfigError

KEY_BYTES = 32
_BLOCK = 16  # bytes of a block of AES


@dataclass(frozen=True, slots=True)
class Randomness:
    """The source of all that one payment draws. key: at least 32 secret bytes, used nowhere else."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < KEY_BYTES:
            raise ConfigError(f"A key of {len(self.key)} bytes: expected at least {KEY_BYTES}.")

    @classmethod
    def system(cls) -> Self:
        """A source from the operating system's entropy."""
        return cls(secrets.token_bytes(KEY_BYTES))

    def child(self, *names: str | int | bytes) -> "Randomness":
        """A separate source for each list of names, by keyed BLAKE2b (RFC 7693).

        It reveals nothing of this source, nor of its other children. Names of different types or lengths
        never give the same child: each is hashed with its type and its length.
        """
        digest = hashlib.blake2b(key=hashlib.blake2b(self.key).digest(), digest_size=KEY_BYTES)
        for name in names:
            encoded = name if isinstance(name, bytes) else str(name).encode()
            digest.update(f"{type(name).__name__} {len(encoded)} ".encode() + encoded)
        return Randomness(digest.digest())

    def stream(self, number: int = 0) -> "ByteStream":
        """Stream `number` of this source; two streams share no block of AES."""
        return ByteStream(self.key[:KEY_BYTES], number)

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A torch.Generator seeded from this source, for what needs no proof: see `keyed_generator`."""
        return keyed_generator(self.key, device)

    def digest(self, chunks: Iterable[NDArray[Any]]) -> bytes:
        """GMAC: 16 bytes, equal for different numbers with a probability of only 2^-100 (for up to 2^29).

        It is a polynomial hash with a secret point (McGrew, Viega 2004). It finds equal inputs, and must not
        be shown to anybody.
        """
        mac = Cipher(algorithms.AES(self.child("digest").key), modes.GCM(bytes(12))).encryptor()
        for chunk in chunks:
            mac.authenticate_additional_data(np.ascontiguousarray(chunk).data.cast("B"))
        mac.finalize()
        return mac.tag

    @contextmanager
    def in_torch(self, device: torch.device) -> Iterator[None]:
        """Within it, torch's global generators on the CPU and on `device` draw from this source.

        A model's own random numbers (dropout, stochastic depth) come from there. Afterwards the generators
        continue as before. PyTorch expands the given state in its own way, which is not cryptographic.
        """
        with kept_random_state():
            torch.set_rng_state(keyed_state(self.child("cpu").key))
            if device.type == "cuda":
                torch.cuda.set_rng_state(self.child("cuda").generator(device).get_state(), device)
            yield


class ByteStream:
    """The bytes of AES-256-CTR with one key; `number` is the upper half of the counter."""

    def __init__(self, key: bytes, number: int) -> None:
        counter = number.to_bytes(8, "big") + bytes(8)
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()

    def words(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
        """The next `count` uniform numbers of that type; little-endian on any machine."""
        wanted = np.dtype(dtype).newbyteorder("<")
        zeros = bytes(count * wanted.itemsize)
        buffer = np.empty(len(zeros) + _BLOCK, np.uint8)
        self._cipher.update_into(zeros, buffer.data)
        return buffer[: len(zeros)].view(wanted)
