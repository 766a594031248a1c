"""A chain of hashes over rows of text; editing, removing or inserting a row breaks it.

The hash of a row covers the row and the hash before it. So the last hash, the head, stands for all rows: a
head that is kept elsewhere shows later whether the rows up to it are still the same.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """A stored row: its number, from 1 without gaps, its text, and its hash in hex."""

    id: int
    content: str
    hash: str


def chain_hash(previous: str, content: str) -> str:
    """SHA-256 in hex of the previous row's hash (empty for the first), a line feed, and this row's text."""
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()


def head(rows: Sequence[Row]) -> str:
    """The hash that stands for all rows; empty if there are none."""
    return rows[-1].hash if rows else ""


def first_broken(rows: Sequence[Row], made: int, after: int = 0, previous: str = "") -> int | None:
    """Number of the first row that is not as it was appended; None if all are.

    made: how many rows were ever appended. It is counted elsewhere, because a chain that was cut off at its
    end looks whole. after, previous: number and hash of the row before `rows`, which is known to be sound.
    """
    for expected, row in enumerate(rows, start=after + 1):
        if row.id != expected or row.hash != chain_hash(previous, row.content):
            return min(row.id, expected)
        previous = row.hash
    there = after + len(rows)
    return None if there == made else min(there, made) + 1
