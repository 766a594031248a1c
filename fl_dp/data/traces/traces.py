"""How a data set is recognised however it is read: by what is in its source, not by what becomes of it.

A digest of a whole record changes with every column that is added, left out or read as something else. So a
ledger also knows data by their traces: values that stand together in a record, and pieces of its content.
Both are taken before any schema, unit, label or tokenizer is applied.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Texts = NDArray[np.object_]  # (n,) the cells of a column
Rows = NDArray[np.int64]
Columns = tuple[int, ...]

NOTHING = np.uint64(0)  # the hash of an empty cell
DIGITS = 3  # significant ones, of a number with a fraction: it may have been rounded
CHANCE = 0.005  # share of another data set's records that may agree with one of these by chance
ALIKE = 0.01  # share of pairs of records that may agree on the rest of a set without its strongest column
_SAMPLE = 20_000  # records to estimate chance with
_KEPT = np.uint64(8)  # one set of cells in this many is kept, the same ones everywhere
_FEW_COLUMNS = 3  # with few columns there are so few sets that all are kept
_MOST_HOLDERS = 2  # a piece in more records is a form's heading, or a phrase


def _no_pieces() -> Hashes:
    return np.zeros(0, dtype=np.uint64)


def _no_rows() -> Rows:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """For n records, what may stand together: uint64 (n, k), hashes, each of one column or of several.

    rest: the same, each without its column that tells records apart best. least: how many of the k make a
    set.
    """

    hashes: Hashes
    rest: Hashes
    least: int

    def at(self, rows: Rows) -> Self:
        return type(self)(self.hashes[rows], self.rest[rows], self.least)


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """The traces of n records.

    cells: of a table. records_of: uint64 (n,), equal where all columns are.
    pieces: uint64 (m,), hashes of content that stands for itself: a picture, a line, a few words of a text.
    owners: int64 (m,), the record that each piece is in.
    """

    records: int
    cells: tuple[Cells, ...] = ()
    records_of: Hashes = field(default_factory=_no_pieces)
    pieces: Hashes = field(default_factory=_no_pieces)
    owners: Rows = field(default_factory=_no_rows)

    def at(self, rows: Rows) -> Self:
        """Those of the records `rows`, in their order; each is listed once."""
        place = np.full(self.records, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.owners] >= 0
        cells = tuple(cells.at(rows) for cells in self.cells)
        whole = self.records_of[rows] if self.cells else self.records_of
        return type(self)(len(rows), cells, whole, self.pieces[kept], place[self.owners[kept]])

    def digests(self) -> list[bytes]:
        """8 bytes for each trace, in no meaningful order."""
        distinct = np.unique(self.records_of, return_index=True)[1]
        some, records = distinct[:_SAMPLE], len(distinct)  # sorted by hash, so a fair sample
        found = [_rare_pieces(self.pieces, self.owners)]
        found += [_telling_sets(cells, some, records) for cells in self.cells]
        return [trace.tobytes() for trace in np.unique(np.concatenate(found))]


def of_contents(contents: Sequence[Sequence[bytes]]) -> Traces:
    """Traces of one record per list of contents, each a piece: a picture's file, and its pixels."""
    pairs = [(hash_of(content), row) for row, own in enumerate(contents) for content in own]
    pieces, owners = zip(*pairs, strict=True) if pairs else ((), ())
    return Traces(len(contents), pieces=np.array(pieces, np.uint64), owners=np.array(owners, np.int64))


def hash_of(content: bytes) -> np.uint64:
    """8 bytes of BLAKE2b; `NOTHING` only with probability 2^-64."""
    return np.uint64(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big"))


def agreement(hashes: Hashes) -> float:
    """The probability that two of them are equal; those that are NOTHING are left out."""
    there = hashes[hashes != NOTHING]
    counts = np.unique(there, return_counts=True)[1].astype(np.float64)
    number = len(there)
    return float((counts * (counts - 1)).sum() / (number * (number - 1))) if number > 1 else 1.0


def _rare_pieces(pieces: Hashes, owners: Rows) -> Hashes:
    """The pieces that are in one record, or two."""
    if not len(pieces):
        return pieces
    distinct = np.unique(np.stack([pieces, owners.astype(np.uint64)]), axis=1)[0]
    found, holders = np.unique(distinct, return_counts=True)
    rare: Hashes = found[holders <= _MOST_HOLDERS]
    return rare


def _telling_sets(cells: Cells, some: Rows, records: int) -> Hashes:
    """Hashes of a record's sets of cells that records of other data share only by chance.

    Two records of other data agree on a set as rarely as two of these do, equal records counted once. Rows of
    two tables may be numbered alike, or come from the same hours: so one column is never enough, and the
    others of its set must tell records apart as well. some: records to judge that by, of `records` distinct
    ones.
    """
    number = cells.hashes.shape[1]
    found, sample = [_no_pieces()], cells.at(some)
    single = [agreement(column) for column in (sample.hashes - sample.rest).T]
    likely: dict[Columns, float] = {}
    sets = [one for size in range(cells.least, number + 1) for one in combinations(range(number), size)]
    for chosen in sets:
        sums = _sums(sample.hashes, chosen)
        if len(chosen) < number:
            likely[chosen] = agreement(sums)
        else:  # no two distinct records agree on all: that is rarer than agreeing on all but one
            likely[chosen] = min(likely.values(), default=min(single))
        if likely[chosen] * (records - 1) > CHANCE:
            continue
        k = min(chosen, key=single.__getitem__)
        others = np.where(sums == NOTHING, NOTHING, sums - sample.hashes[:, k] + sample.rest[:, k])
        if agreement(others) <= ALIKE:
            found.append(_kept(_sums(cells.hashes, chosen), number))
    return np.concatenate(found)


def _kept(hashes: Hashes, columns: int) -> Hashes:
    kept: Hashes = hashes[(hashes != NOTHING) & ((hashes % _KEPT == 0) | (columns <= _FEW_COLUMNS))]
    return kept


def _sums(hashes: Hashes, chosen: Columns) -> Hashes:
    """(n,) hashes of those together; NOTHING if one of them is empty."""
    part = hashes[:, chosen]
    sums: Hashes = np.where((part == NOTHING).any(axis=1), NOTHING, part.sum(axis=1))
    return sums
