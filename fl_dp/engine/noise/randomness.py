"""Secret bytes, and the byte streams derived from them with ChaCha20 (RFC 8439).

Anyone with the secret bytes can compute every number that is drawn, and remove the noise. So they are kept as
secret as the data, and used for one payment alone. To anyone else with bounded computing power the streams
look random (assuming that ChaCha20 and BLAKE2 are pseudorandom functions). ChaCha20 and Poly1305 need only
additions and products of 32 bits, so a GPU computes the same bytes (`device.py`).
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.poly1305 import Poly1305
from numpy.typing import NDArray

from fl_dp.engine.noise.generators import keyed_generator
from fl_dp.engine.tracing.draws import kept_random_state
from fl_dp.errors import ConfigError

KEY_BYTES = 32
BLOCK = 64  # bytes of a block of ChaCha20
MOST_BLOCKS = 1 << 32  # of a stream: the counter has 32 bits and must never wrap


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

    def stream(self, number: int = 0, block: int = 0) -> "ByteStream":
        """Stream `number` of this source from a block on; two streams share no block of ChaCha20."""
        return ByteStream(self.key[:KEY_BYTES], number, block)

    def keyed_by(self, digest: bytes) -> "Randomness":
        """A separate source for each digest of 16 bytes, which stands for counter and nonce of ChaCha20.

        Its key is the first half of that block. Use a source for this, or for anything else, never for both.
        """
        cipher = Cipher(algorithms.ChaCha20(self.key[:KEY_BYTES], digest), mode=None).encryptor()
        return Randomness(cipher.update(bytes(KEY_BYTES)))

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A torch.Generator seeded from this source, for what needs no proof: see `keyed_generator`."""
        return keyed_generator(self.key, device)

    def digest(self, numbers: NDArray[Any]) -> bytes:
        """Poly1305: 16 bytes, the same for two arrays of up to 2^29 numbers with probability 2^-75.

        It is a polynomial hash with a secret point: two messages of up to L bytes have the same digest with
        probability 8 ceil(L / 16) / 2^106 at most (Bernstein 2005, theorem 3.3). It finds equal inputs, and
        must not be shown to anybody.
        """
        data = np.ascontiguousarray(numbers).data.cast("B")
        return Poly1305.generate_tag(self.child("digest").key, data)

    @contextmanager
    def in_torch(self, *devices: torch.device) -> Iterator[None]:
        """Within it, torch's global generators on the CPU and on these devices draw from this source.

        A model's own random numbers (dropout, stochastic depth) come from there. Afterwards the generators
        continue as before. PyTorch expands the given state in its own way, which is not cryptographic.
        """
        with kept_random_state():
            torch.set_rng_state(keyed_generator(self.child("cpu").key).get_state())
            for number, device in enumerate(devices):
                if device.type == "cuda":  # each device takes other records, and gets its own numbers
                    source = self.child("cuda", number) if number else self.child("cuda")
                    torch.cuda.set_rng_state(source.generator(device).get_state(), device)
            yield


class ByteStream:
    """The bytes of ChaCha20 with one key, from `block` on. number: the nonce."""

    def __init__(self, key: bytes, number: int, block: int = 0) -> None:
        nonce = block.to_bytes(4, "little") + number.to_bytes(12, "little")
        self._cipher = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()
        self._left = (MOST_BLOCKS - block) * BLOCK

    def words(self, count: int, dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
        """The next `count` uniform numbers of that type; little-endian on any machine."""
        wanted = np.dtype(dtype).newbyteorder("<")
        zeros = bytes(count * wanted.itemsize)
        self._left -= len(zeros)
        if self._left < 0:
            raise ConfigError(f"A stream of more than {MOST_BLOCKS * BLOCK} bytes would repeat itself.")
        buffer = np.empty(len(zeros), np.uint8)
        self._cipher.update_into(zeros, buffer.data)
        return buffer.view(wanted)
