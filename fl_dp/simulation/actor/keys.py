"""When a simulated round may be repeated without being paid for again: what its result depends on.

Draws, masks and noise of a client's round come from the secret bytes of its payment, which the ledger keeps
until the round's result is in the run's state. Until then an interrupted round is repeated with the same
bytes, whichever process trains it: the same weights give the same result, which is released once.
"""

import hashlib
import secrets
from pathlib import Path

import torch

from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import ConfigError
from fl_dp.records import RoundPlan

SECRET_BYTES = 32


def new_secret() -> bytes:
    """A secret from the system's entropy. It names a run; no random number of the training comes from it."""
    return secrets.token_bytes(SECRET_BYTES)


def run_name(secret: bytes, device: str) -> str:
    """A run's name in the ledger, where each round of one name is paid for once.

    Keyed BLAKE2 reveals nothing of the secret, so nobody else can begin a round under the run's name. The
    name depends on the kind of device, because another one would round differently.
    """
    return hashlib.blake2b(f"run on {device}".encode(), key=secret, digest_size=8).hexdigest()


def kept_secret(path: Path) -> bytes:
    """The secret in the file `path`; if there is none, a new one, which is on the disk when this returns.

    Only its owner can read the file. ConfigError if it is damaged: a shorter key could be guessed.
    """
    if not path.exists():
        private_folder(path.parent)
        secret = new_secret()
        write_whole(path, lambda file: file.write(secret), secret=True)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise ConfigError(f"{path}: is damaged; the run cannot be resumed, start a new one.")
    return secret


def result_of(weights: str, plan: RoundPlan, state: str = "") -> str:
    """A digest of all that decides a client's update, besides its data and the bytes of its payment.

    weights: their digest. The plan names the loss and the numerics of this fl_dp; another PyTorch may round,
    or draw, differently. state: digest of the state that the client continues from; empty if it starts anew.
    """
    words = f"{weights} {plan} torch {torch.__version__}" + (f" from {state}" if state else "")
    return hashlib.sha256(words.encode()).hexdigest()
