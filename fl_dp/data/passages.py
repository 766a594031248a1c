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

from fl_dp.data.tokens import Encoder, Tokens
from fl_dp.data.traces.texts import WINDOW, window_hashes


@dataclass(frozen=True)
class Passage:
    """tokens: (T + 1,), T inputs and as many next ones. text: theirs, in UTF-8. raw: see above."""

    tokens: Tokens
    text: bytes

    @property
    def raw(self) -> bytes:
        return digest(self.text)


def passages(text: str, encoder: Encoder, length: int) -> Iterator[Passage]:
    """The text in passages of `length` + 1 tokens; what is left at its end is no passage."""
    tokens, ends = encoder.running(text)
    source = text.encode() if encoder.counts_bytes else text
    start = 0
    for first in range(0, len(tokens) - length, length + 1):
        end = int(ends[first + length])
        part = source[start:end]
        yield Passage(tokens[first : first + length + 1], part.encode() if isinstance(part, str) else part)
        start = end


def digest(passage: bytes) -> bytes:
    """SHA-256 of the window of it that has the least hash; of all of it where it is shorter than one."""
    if len(passage) > WINDOW:
        start = int(np.argmin(window_hashes(np.frombuffer(passage, np.uint8))))
        passage = passage[start : start + WINDOW]
    return hashlib.sha256(passage).digest()
