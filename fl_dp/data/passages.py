"""A running text as records: passages of T tokens that share no token, and what stands for each of them.

What stands for a passage must not depend on where passages begin: the same text cut into longer ones, or read
with another tokenizer, must look like the same records to a ledger. So it is a digest of WINDOW bytes of the
passage: those whose hash is the least of all in it (winnowing: Schleimer, Wilkerson, Aiken 2003, "Winnowing:
local algorithms for document fingerprinting"). A passage twice as long has the least of two shorter ones.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl_dp.data.tokens import Encoder, Tokens

WINDOW = 32  # bytes
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Passage:
    """tokens: (T + 1,), T inputs and as many next ones. raw: see above."""

    tokens: Tokens
    raw: bytes


def passages(text: str, encoder: Encoder, length: int) -> Iterator[Passage]:
    """The text in passages of `length` + 1 tokens; what is left at its end is no passage."""
    tokens, ends = encoder.running(text)
    source = text.encode() if encoder.counts_bytes else text
    start = 0
    for first in range(0, len(tokens) - length, length + 1):
        end = int(ends[first + length])
        part = source[start:end]
        yield Passage(
            tokens[first : first + length + 1], digest(part.encode() if isinstance(part, str) else part)
        )
        start = end


def digest(passage: bytes) -> bytes:
    """SHA-256 of the window of it that has the least hash; of all of it where it is shorter than one."""
    if len(passage) > WINDOW:
        start = int(np.argmin(_hashes(np.frombuffer(passage, np.uint8))))
        passage = passage[start : start + WINDOW]
    return hashlib.sha256(passage).digest()


def _hashes(content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Of each window: a polynomial in its bytes, mixed: the least is not that of the alphabet."""
    number = len(content) - WINDOW + 1
    hashes = np.zeros(number, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(WINDOW):
            hashes = hashes * _BASE + content[place : place + number]
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX
    return hashes ^ (hashes >> np.uint64(32))
