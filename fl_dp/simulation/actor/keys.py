"""Every simulated client's randomness, from one secret of the run.

Noise and Poisson draws of a client's round depend on the run's secret, the client and the round alone: not on
which process trains it, how often it was begun, or whether the run was killed and resumed in between. What
is done again from the same weights then gives the same update, which costs no privacy. (One exception in the
last bits, after a process has died with the other one: see `actor_pool`.)
"""

import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan
from fl_dp.simulation.work import Array

SECRET_BYTES = 32


def new_secret() -> bytes:
    """From the system's entropy. Whoever has it can take the noise off the updates: see `kept_secret`."""
    return secrets.token_bytes(SECRET_BYTES)


def run_name(secret: bytes, device: str) -> str:
    """A run's name in the ledger, where a round of the same name is paid for once.

    By keyed BLAKE2, which tells nothing of the secret: whatever changes the randomness, another secret or
    generators of another kind of device, is another run.
    """
    return hashlib.blake2b(f"run on {device}".encode(), key=secret, digest_size=8).hexdigest()


def client_key(secret: bytes, run: str, server_round: int, client: str) -> bytes:
    """The key of all randomness of a client's round, by keyed BLAKE2 (RFC 7693): 32 bytes."""
    names = "\0".join((run, str(server_round), client))
    return hashlib.blake2b(names.encode(), key=secret, digest_size=SECRET_BYTES).digest()


def kept_secret(path: Path) -> bytes:
    """The secret in the file `path`; if there is none a new one, which is on the disk when this returns.

    Only its owner can read the file. ConfigError when it is damaged: a shorter key could be guessed.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        secret = new_secret()
        write_whole(path, lambda file: file.write(secret), secret=True)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise ConfigError(f"{path}: is damaged; the run cannot be resumed, start a new one.")
    return secret


def digest_of(weights: Mapping[str, Array]) -> str:
    """SHA-256 over names, types, shapes and values, in hex."""
    digest = hashlib.sha256()
    for name, array in weights.items():
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def result_of(weights: str, plan: RoundPlan) -> str:
    """A digest of all that decides a client's update, beside its data and the run's secret.

    weights: their digest. The plan names the loss and the arithmetic of this fl_dp; another PyTorch may
    round, or draw, otherwise.
    """
    return hashlib.sha256(f"{weights} {plan} torch {torch.__version__}".encode()).hexdigest()
