"""Whether two sets share many records, told from a small sample of each: bottom-k sketches.

Every record has a number that only the holder of a key can compute; a sketch holds the least of them. Up to
the end of the shorter reach both sketches are complete, and there a shared record is in both (Broder 1997,
"On the resemblance and containment of documents"; k least values: Cohen, Kaplan 2007).
"""

import hashlib
from collections.abc import Iterable

SIZE = 1024  # records in a sketch
MANY = 0.1  # of the smaller set's records
_WIDTH = 16  # hex digits of one record's number: with 64 bits, chance agreements can be neglected


def sketch(records: Iterable[bytes], key: bytes) -> str:
    """The sketch of a set, its records given by their digests: the least keyed numbers in hex, in order."""
    numbers = {hashlib.blake2b(record, key=key, digest_size=_WIDTH // 2).hexdigest() for record in records}
    return "".join(sorted(numbers)[:SIZE])


def share_many(one: str, other: str) -> bool:
    """Whether two sketches by one key have MANY of the smaller set's sampled records in common.

    An empty sketch, of a set that is not known, shares nothing. Sets of n and m distinct records, n <= m, are
    compared by about min(n, SIZE * n / m) records of the smaller: with n far below m / SIZE, by none.
    """
    sampled, others = _numbers(one), _numbers(other)
    end = min(_reach(sampled), _reach(others))
    sampled = {number for number in sampled if number <= end}
    others = {number for number in others if number <= end}
    smaller = min(len(sampled), len(others))
    return smaller > 0 and len(sampled & others) >= MANY * smaller


def _numbers(text: str) -> set[str]:
    return {text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)}


def _reach(numbers: set[str]) -> str:
    """Up to which number a sketch is complete; a short one holds the whole set."""
    return max(numbers) if len(numbers) == SIZE else "g"  # above every hex digit
