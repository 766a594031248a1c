"""Pieces of texts: windows of bytes chosen by their content, wherever a record begins.

So a text is recognised that was cut into other records, or read with another tokenizer (winnowing: Schleimer,
Wilkerson, Aiken 2003, "Winnowing: local algorithms for document fingerprinting").
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fl_dp.data.traces.traces import Hashes, Rows, Traces, hash_of

WINDOW = 32  # bytes, of a text without spaces
_CHOSEN = np.uint64(16)  # one window in this many
_SMALL = bytes.maketrans(bytes(range(65, 91)), bytes(range(97, 123)))
_BLANKS = b" \t\r\n\f\v"
_BETWEEN = b"\0"  # separates two records
_CHUNK = 2**22  # bytes whose windows are hashed at a time
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


def of_texts(texts: Sequence[bytes], *, running: bool = False) -> Traces:
    """Traces of one record per text. running: they are one text, cut, so a window may reach into the next.

    A record shorter than a window is one piece. Spaces and capital letters do not count.
    """
    plain = [text.translate(_SMALL, _BLANKS) for text in texts]
    between = b"" if running else _BETWEEN
    ends = np.cumsum([len(text) + len(between) for text in plain])
    pieces, starts = _windows(between.join(plain))
    owners = np.searchsorted(ends, starts, side="right").astype(np.int64)
    short = [] if running else [row for row, text in enumerate(plain) if 0 < len(text) < WINDOW]
    whole = np.array([hash_of(plain[row]) for row in short], dtype=np.uint64)
    rows = np.concatenate([owners, np.array(short, dtype=np.int64)])
    return Traces(len(texts), pieces=np.concatenate([pieces, whole]), owners=rows)


def window_hashes(content: NDArray[np.uint8]) -> Hashes:
    """For each window of WINDOW bytes: a polynomial in its bytes, mixed, so that any may be the smallest."""
    number = max(0, len(content) - WINDOW + 1)
    hashes = np.zeros(number, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for place in range(WINDOW):
            hashes = hashes * _BASE + content[place : place + number]
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX
    return hashes ^ (hashes >> np.uint64(32))


def _windows(text: bytes) -> tuple[Hashes, Rows]:
    """The chosen windows of a text, and where each begins; none crosses the boundary of two records."""
    parts = list(_chosen(text))
    if not parts:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    pieces, starts = map(np.concatenate, zip(*parts, strict=True))
    return pieces, starts


def _chosen(text: bytes) -> Iterator[tuple[Hashes, Rows]]:
    content = np.frombuffer(text, np.uint8)
    for start in range(0, len(content), _CHUNK):
        part = content[start : start + _CHUNK + WINDOW - 1]
        hashes = window_hashes(part)
        seen = np.cumsum(part == _BETWEEN[0])
        last = seen[WINDOW - 1 :]
        first = np.concatenate([[0], seen[: max(0, len(hashes) - 1)]])[: len(hashes)]
        chosen = np.flatnonzero((hashes % _CHOSEN == 0) & (first == last))
        yield hashes[chosen], chosen + start
