"""What a data set is recognised by, however it is read: what stands in its source, not what becomes of it.

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

NOTHING = np.uint64(0)  # the hash of a cell that holds nothing
DIGITS = 3  # significant ones of a number with a fraction: it may have been rounded
CHANCE = 0.005  # records of another data set that agree with one of these by chance
ALIKE = 0.01  # pairs of records that may agree on what is left of a set without its strongest column
_SAMPLE = 20_000  # records by which chance is judged
_KEPT = np.uint64(8)  # of the sets of cells one in so many is kept, the same ones wherever they are
_FEW_COLUMNS = 3  # their sets are so few that all are kept
_MOST_HOLDERS = 2  # a piece that is in more records is a form's heading, or a phrase


def _no_pieces() -> Hashes:
    return np.zeros(0, dtype=np.uint64)


def _no_rows() -> Rows:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Of n records, what may stand together: uint64 (n, k), hashes, each of one column or of several.

    rest: the same, each without the column of it that tells records apart best. least: how many of the k
    make a set.
    """

    hashes: Hashes
    rest: Hashes
    least: int

    def at(self, rows: Rows) -> Self:
        return type(self)(self.hashes[rows], self.rest[rows], self.least)


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """Of n records.

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
        """Those of the records `rows`, in their order; each is named once."""
        place = np.full(self.records, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.owners] >= 0
        cells = tuple(cells.at(rows) for cells in self.cells)
        whole = self.records_of[rows] if self.cells else self.records_of
        return type(self)(len(rows), cells, whole, self.pieces[kept], place[self.owners[kept]])

    def digests(self) -> list[bytes]:
        """8 bytes for each trace, in no order that means anything."""
        distinct = np.unique(self.records_of, return_index=True)[1]
        some, records = distinct[:_SAMPLE], len(distinct)  # by their hashes: a fair sample
        found = [_rare_pieces(self.pieces, self.owners)]
        found += [_telling_sets(cells, some, records) for cells in self.cells]
        return [trace.tobytes() for trace in np.unique(np.concatenate(found))]


def of_contents(contents: Sequence[Sequence[bytes]]) -> Traces:
    """Of one record for each list of contents, each a piece as it is: a picture's file, and its pixels."""
    pairs = [(hash_of(content), row) for row, own in enumerate(contents) for content in own]
    pieces, owners = zip(*pairs, strict=True) if pairs else ((), ())
    return Traces(len(contents), pieces=np.array(pieces, np.uint64), owners=np.array(owners, np.int64))


def hash_of(content: bytes) -> np.uint64:
    """8 bytes of BLAKE2b; never `NOTHING`, but by a chance of 2^-64."""
    return np.uint64(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big"))


def agreement(hashes: Hashes) -> float:
    """How likely two of them are equal; those that are NOTHING are left out."""
    there = hashes[hashes != NOTHING]
    counts = np.unique(there, return_counts=True)[1].astype(np.float64)
    number = len(there)
    return float((counts * (counts - 1)).sum() / (number * (number - 1))) if number > 1 else 1.0


def _rare_pieces(pieces: Hashes, owners: Rows) -> Hashes:
    """Those that are in one record, or two."""
    if not len(pieces):
        return pieces
    distinct = np.unique(np.stack([pieces, owners.astype(np.uint64)]), axis=1)[0]
    found, holders = np.unique(distinct, return_counts=True)
    rare: Hashes = found[holders <= _MOST_HOLDERS]
    return rare


def _telling_sets(cells: Cells, some: Rows, records: int) -> Hashes:
    """Hashes of those sets of cells of a record that no record of other data has but by chance.

    Two records of other data agree on a set as rarely as two of these do, equal records counted once. Rows of
    two tables may be numbered alike, or be of the same hours: so one column is never enough, and the others
    of its set must tell records apart as well. some: records by which that is judged, of `records` distinct.
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
        else:  # no two distinct records agree on all: that is rarer than to agree on all but one
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
    """(n,) of those together; NOTHING where one of them holds nothing."""
    part = hashes[:, chosen]
    sums: Hashes = np.where((part == NOTHING).any(axis=1), NOTHING, part.sum(axis=1))
    return sums
