"""Every simulated client's randomness, from one secret of the run.

Noise and Poisson draws of a client's round depend on the run's secret, the client and the round alone: not on
which process trains it, how often it was begun, or whether the run was killed and resumed in between. What
is done again then gives the same update, which costs no privacy.
"""

import hashlib
import os
import secrets
from pathlib import Path

SECRET_BYTES = 32


def new_secret() -> bytes:
    """From the system's entropy. Whoever has it can take the noise off the updates: see `keep_secret`."""
    return secrets.token_bytes(SECRET_BYTES)


def client_key(secret: bytes, run: str, server_round: int, client: str, purpose: str) -> bytes:
    """The key of one stream of random numbers, by keyed BLAKE2 (RFC 7693): 32 bytes, one for each use."""
    names = "\0".join((run, str(server_round), client, purpose))
    return hashlib.blake2b(names.encode(), key=secret, digest_size=SECRET_BYTES).digest()


def keep_secret(path: Path, secret: bytes) -> None:
    """Write `secret` to a new file that only its owner can read; it is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
