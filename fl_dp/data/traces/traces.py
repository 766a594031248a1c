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
CHANCE = 0.001  # records of another data set that agree with one of these by chance
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
class Traces:
    """Of n records.

    cells: for each choice of the telling columns (see `columns`) uint64 (n, k), hashes of their values.
    wholes: uint64 (n, 1 + c), the sum of all columns' hashes, and c sums that each lack one column.
    pieces: uint64 (m,), hashes of content that stands for itself: a picture, a line, a few words of a text.
    owners: int64 (m,), the record that each piece is in.
    """

    records: int
    cells: tuple[Hashes, ...] = ()
    wholes: Hashes | None = None
    pieces: Hashes = field(default_factory=_no_pieces)
    owners: Rows = field(default_factory=_no_rows)

    def at(self, rows: Rows) -> Self:
        """Those of the records `rows`, in their order; each is named once."""
        place = np.full(self.records, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.owners] >= 0
        cells = tuple(cells[rows] for cells in self.cells)
        wholes = None if self.wholes is None else self.wholes[rows]
        return type(self)(len(rows), cells, wholes, self.pieces[kept], place[self.owners[kept]])

    def digests(self) -> list[bytes]:
        """8 bytes for each trace, in no order that means anything."""
        found = [_rare_pieces(self.pieces, self.owners)]
        if self.wholes is not None:
            distinct = np.unique(self.wholes[:, 0], return_index=True)[1]
            some, records = distinct[:_SAMPLE], len(distinct)  # by their hashes: a fair sample
            found += [_telling_sets(cells, some, records) for cells in self.cells]
            found.append(_telling_wholes(self.wholes, some, records))
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


def _telling_sets(cells: Hashes, some: Rows, records: int) -> Hashes:
    """Hashes of those sets of two or more cells of a record that no record of other data has but by chance.

    Two records of other data agree on a set as rarely as two of these do, equal records counted once. Rows of
    two tables may be numbered alike, or be of the same hours: so one column is never enough, and the others
    of its set must tell records apart as well. some: records by which that is judged, of `records` distinct.
    """
    number = cells.shape[1]
    sets = [chosen for size in range(1, number) for chosen in combinations(range(number), size)]
    likely = {chosen: agreement(_sums(cells[some], chosen)) for chosen in sets}
    found = [_no_pieces()]
    for chosen in sets:
        if len(chosen) > 1 and _tells(chosen, likely, records):
            sums = _sums(cells, chosen)
            found.append(_kept(sums[sums != NOTHING], number))
    return np.concatenate(found)


def _tells(chosen: Columns, likely: dict[Columns, float], records: int) -> bool:
    strongest = min(chosen, key=lambda column: likely[column,])
    others = tuple(column for column in chosen if column != strongest)
    return likely[chosen] * (records - 1) <= CHANCE and likely[others] <= ALIKE


def _telling_wholes(wholes: Hashes, some: Rows, records: int) -> Hashes:
    """Those of tables whose records differ by many columns of few values each, as answers to questions do.

    That all columns agree is rarer than that all but one do.
    """
    lacking = [agreement(column) for column in wholes[some, 1:].T]
    if not lacking or max(lacking) > ALIKE:
        return _no_pieces()
    likely = np.array([min(lacking), *lacking])
    return _kept(wholes[:, likely * (records - 1) <= CHANCE].reshape(-1), len(lacking))


def _kept(hashes: Hashes, columns: int) -> Hashes:
    return hashes if columns <= _FEW_COLUMNS else hashes[hashes % _KEPT == 0]


def _sums(cells: Hashes, chosen: Columns) -> Hashes:
    """(n,) of the cells in those columns together; NOTHING where one of them holds nothing."""
    part = cells[:, chosen]
    sums: Hashes = np.where((part == NOTHING).any(axis=1), NOTHING, part.sum(axis=1))
    return sums
