"""Running text as records: disjoint passages of T tokens, each with a digest that stands for it.

The digest must not depend on where passages begin: the same text cut into longer ones, or read with another
tokenizer, must look like the same records to a ledger. So it is the digest of a window of WINDOW bytes of the
passage: the one with the smallest hash (winnowing: Schleimer, Wilkerson, Aiken 2003, "Winnowing: local
algorithms for document fingerprinting"). A passage twice as long has the smaller hash of two shorter ones.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl_dp.data.tokens import Encoder, Tokens
from fl_dp.data.traces.texts import WINDOW, window_hashes


@dataclass(frozen=True)
class Passage:
    """tokens: (T + 1,), T inputs and as many next tokens. text: theirs, in UTF-8. raw: see above."""

    tokens: Tokens
    text: bytes

    @property
    def raw(self) -> bytes:
        return digest(self.text)


def passages(text: str, encoder: Encoder, length: int) -> Iterator[Passage]:
    """The text in passages of `length` + 1 tokens; the remainder at its end is dropped."""
    tokens, ends = encoder.running(text)
    source = text.encode() if encoder.counts_bytes else text
    start = 0
    for first in range(0, len(tokens) - length, length + 1):
        end = int(ends[first + length])
        part = source[start:end]
        yield Passage(tokens[first : first + length + 1], part.encode() if isinstance(part, str) else part)
        start = end


def digest(passage: bytes) -> bytes:
    """SHA-256 of the passage's window with the smallest hash; of all of it if it is shorter than one."""
    if len(passage) > WINDOW:
        start = int(np.argmin(window_hashes(np.frombuffer(passage, np.uint8))))
        passage = passage[start : start + WINDOW]
    return hashlib.sha256(passage).digest()
