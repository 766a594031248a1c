"""Digests of records as they are in a file, before any schema, and the train/test split by them."""

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fl_dp.data.tables.cells import Cells, plain

# Public and fixed: with a key of one's own, one could try splits until one looks good.
_KEY = b"fl_dp train/test split"
_TEST_SHARE = 0.2


def record_digests(columns: Mapping[str, Cells]) -> tuple[bytes, ...]:
    """SHA-256 of every record: of its cells by column name, sorted by name.

    A number counts by its value, so that a file that was saved again has the same records.
    """
    names = sorted(columns)
    parts = [_framed(name, columns[name]) for name in names]
    return tuple(hashlib.sha256(b"".join(record)).digest() for record in zip(*parts, strict=True))


def _framed(name: str, cells: Cells) -> list[bytes]:
    """Name and cell with their lengths, so that concatenations of different records differ."""
    places, distinct = pd.factorize(cells)
    texts = [_with_length(name) + _with_length(plain(text)) for text in distinct]
    return [texts[place] for place in places]


def _with_length(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return len(content).to_bytes(8, "big") + content


def for_testing(records: tuple[bytes, ...]) -> NDArray[np.bool_]:
    """(n,) which records are for testing: a fifth, and the same whatever other records there are."""
    bound = int(_TEST_SHARE * 2**64)
    return np.array(
        [
            int.from_bytes(hashlib.blake2b(one, key=_KEY, digest_size=8).digest(), "big") < bound
            for one in records
        ],
        dtype=bool,
    )
