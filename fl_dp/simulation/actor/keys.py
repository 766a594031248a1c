"""When a simulated round may be repeated without being paid for again: what its result follows from.

Draws, masks and noise of a client's round follow from the secret bytes of its payment, which the ledger keeps
until the round's result is in the run's state. Until then a round that was begun is done again with the same
bytes, whichever process trains it: the same from the same weights, and released once.
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
    """From the system's entropy. It names a run, and no number of the training follows from it."""
    return secrets.token_bytes(SECRET_BYTES)


def run_name(secret: bytes, device: str) -> str:
    """A run's name in the ledger, where a round of the same name is paid for once.

    By keyed BLAKE2, which tells nothing of the secret: nobody else can begin a round under the run's name. On
    another kind of device the same round would round otherwise, and is another run's.
    """
    return hashlib.blake2b(f"run on {device}".encode(), key=secret, digest_size=8).hexdigest()


def kept_secret(path: Path) -> bytes:
    """The secret in the file `path`; if there is none a new one, which is on the disk when this returns.

    Only its owner can read the file. ConfigError when it is damaged: a shorter key could be guessed.
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
    """A digest of all that decides a client's update, beside its data and the bytes of its payment.

    weights: their digest. The plan names the loss and the numerics of this fl_dp; another PyTorch may
    round, or draw, otherwise. state: digest of what the client goes on from; empty where it begins anew.
    """
    words = f"{weights} {plan} torch {torch.__version__}" + (f" from {state}" if state else "")
    return hashlib.sha256(words.encode()).hexdigest()
