"""Train/test splits that are decided by each record, or person, alone.

So no record changes sides if others are added or removed, or if the data are encoded in another way.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fl_dp.data.tensor_data import Split

_FOLD = 5  # one in five is a test record


def split_of(digest: bytes) -> Split:
    """The split of a record, by its SHA-256; ValueError for other bytes, whose beginnings may be alike."""
    if len(digest) != hashlib.sha256().digest_size:
        raise ValueError("split_of: expected a SHA-256 digest")
    return "test" if int.from_bytes(digest[:8], "big") % _FOLD == 0 else "train"


def keyed_share(units: Iterable[bytes], key: bytes, share: float) -> NDArray[np.bool_]:
    """(n,) which units belong to that share of them: those whose keyed hash is small."""
    hashes = (hashlib.blake2b(unit, key=key, digest_size=8).digest() for unit in units)
    return np.array([int.from_bytes(one, "big") < int(share * 2.0**64) for one in hashes], dtype=bool)


def record_digest(label: bytes, content: bytes) -> bytes:
    """Digest of a raw record: its label's name, and its original bytes. Ledgers identify it by this."""
    return hashlib.sha256(label + b"\n" + content).digest()
