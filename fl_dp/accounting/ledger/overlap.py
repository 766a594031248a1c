"""Whether two sets share many records, judged by a small sample of each: bottom-k sketches.

Every record has a number that only the holder of a key can compute. A sketch holds a set's k smallest
numbers, and so all of its numbers up to the largest in the sketch. Two sketches are compared up to the
smaller of their two largest numbers: up to there neither lacks any, and a record of both sets is in both
sketches (Broder 1997, "On the resemblance and containment of documents"; k smallest values: Cohen, Kaplan
2007).
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SIZE = 1024  # records in a sketch
MANY = 0.1  # part of the smaller set's records
# Of files and their lines. Where patients are only numbered, up to a tenth is alike: `data/files_read.py`.
MANY_LINES = 0.3
_WIDTH = 16  # hex digits of one record's number: with 64 bits, chance agreements can be neglected


def sketch(records: Iterable[bytes], key: bytes) -> str:
    """The sketch of a set whose records are given by digests: the smallest keyed numbers in hex, in order."""
    numbers = {hashlib.blake2b(record, key=key, digest_size=_WIDTH // 2).hexdigest() for record in records}
    return "".join(sorted(numbers)[:SIZE])


def share_many(one: str, other: str, many: float = MANY) -> bool:
    """Whether two sketches by one key have `many` of the smaller set's sampled records in common.

    An empty sketch, of a set whose records are not known, shares nothing. For two sets of n and m distinct
    records, n <= m, about min(n, SIZE * n / m) records of the smaller are compared: none if n is far below
    m / SIZE.
    """
    sampled, others = numbers_of(one), numbers_of(other)
    end = min(_reach(sampled), _reach(others))
    sampled, others = sampled[sampled <= end], others[others <= end]
    smaller = min(len(sampled), len(others))
    common = len(np.intersect1d(sampled, others, assume_unique=True))
    return smaller > 0 and common >= max(1, many * smaller)


def numbers_of(text: str) -> NDArray[np.uint64]:
    """The numbers of a sketch, each once, in the order in which `sketch` writes them."""
    return np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64)


def _reach(numbers: NDArray[np.uint64]) -> int:
    """The number up to which a sketch lacks none of its set; one that is not full lacks none at all."""
    return int(numbers[-1]) if len(numbers) == SIZE else 2**64 - 1
