"""Which classes and subgroups results may be reported for, so that none can be derived for a few records.

A column is the class, or one way to divide records, such as sex; its cells are the classes or subgroups. For
each told cell, the mean of its records' scores is reported. The cells that are not told count as one, the
hidden cell: its sum is that of all records minus those of the other cells. By adding, subtracting and
weighting all reported numbers of all columns, one gets the sum over records r of g(r) score(r), where g(r) is
the sum over columns c of f_c(the cell of r in c), for any functions f_c. The rule:

    for every column, and every way to split its cells into two sides, there are LEAST_CELL disjoint pairs of
    records, each with one record on each side, and both in the same cell of every other column.

Then every derived number depends on LEAST_CELL records or more: if g vanishes on all records outside a set S
of fewer, g is zero. For S leaves one of the pairs whole. On both of its records g is zero, so f_c is equal on
both sides. As this holds for every column and every split, all f_c are constant, and so is g. For a single
column the rule says that each cell has LEAST_CELL records.

To count such pairs, take the number of records on the smaller side, and add it up over all combinations of
the other columns' cells. This is symmetric and submodular in the side, so that its minimum is found in
polynomial time (Queyranne, Minimizing symmetric submodular functions, Mathematical Programming 82, 1998). If
it is below LEAST_CELL, two more cells are hidden. This sometimes hides more than needed; never less.

For some columns c results are reported by class within each told cell: recall, selection rate, AUROC. Then
f_c may depend on the class, too, and g has one more term, h(the class of r). `told_by_class` gives these
columns:

    the rule holds with the class as one more column, of which no cell is hidden; within each class there are
    LEAST_CELL records, and for every way to split the cells of c that it has into two sides as many disjoint
    pairs of its records, one on each side, alike in all other columns.

Let g vanish outside fewer than LEAST_CELL records. As above, the pairs of a class make f_c equal on both
sides of every split within it, and the first rule makes the f of all other columns constant: g is a function
of the class alone, and zero, because every class has LEAST_CELL records. An AUROC is a sum over pairs of
records of two classes. With the record of one of them fixed, it is such a g of the other: the same holds.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fl_dp.records import LEAST_CELL

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


def told_cells(codes: Codes, sizes: tuple[int, ...], owners: tuple[str, ...] = ()) -> tuple[Mask, ...]:
    """For each column, (size,) the cells for which results may be reported.

    codes: (n, columns) each record's index in each column. owners: the person of each record; if given, every
    reported number depends on at least LEAST_CELL owners. Nothing is reported for cells without records.
    """
    there = tuple(
        tuple(bool(count) for count in np.bincount(codes[:, c], minlength=size))
        for c, size in enumerate(sizes)
    )
    # One record of each owner, so that pairs of records are pairs of owners.
    first = np.unique(np.array(owners), return_index=True)[1] if owners else slice(None)
    rows, counts = np.unique(codes[first], axis=0, return_counts=True)
    return _told(rows.shape, rows.tobytes(), counts.tobytes(), there)


def told_by_class(
    codes: Codes, told: tuple[Mask, ...], classes: Codes, owners: tuple[str, ...] = ()
) -> tuple[bool, ...]:
    """For each column, whether results may be reported by class within its told cells.

    codes, owners: as in `told_cells`, without the classes. told: its result with the classes as one more
    column, of which none is hidden; without that column. classes: (n,) each record's class.
    """
    merged = np.stack([np.where(mask[codes[:, c]], codes[:, c], -1) for c, mask in enumerate(told)], axis=1)
    fine = [True] * len(told)
    for one in np.unique(classes):
        rows = merged[classes == one]
        if owners:
            rows = rows[np.unique(np.array(owners)[classes == one], return_index=True)[1]]
        kinds, weights = np.unique(rows, axis=0, return_counts=True)
        for c in range(len(told)):
            others = [kinds[:, other] for other in range(len(told)) if other != c]
            weak = _weak_side(kinds[:, c], others, weights)[1]
            fine[c] &= len(rows) >= LEAST_CELL and not weak
    return tuple(fine)


@lru_cache(maxsize=16)  # called after each round, for the same records
def _told(
    shape: tuple[int, int], rows: bytes, counts: bytes, there: tuple[tuple[bool, ...], ...]
) -> tuple[Mask, ...]:
    kinds = np.frombuffer(rows, dtype=np.int64).reshape(shape)  # the combinations of cells that occur
    weights = np.frombuffer(counts, dtype=np.int64)  # records of each
    columns = [_Column(kinds[:, c], weights, np.array(mask)) for c, mask in enumerate(there)]
    for column in columns:
        column.hide_small()
    while (weak := _weakest(columns, weights)) is not None:
        weak[0].join(weak[1])
    return tuple(column.told for column in columns)


class _Column:
    """One column. told: (size,); the other cells that have records count as one."""

    def __init__(self, places: Codes, weights: Codes, there: Mask) -> None:
        self.there, self.told = there, there.copy()
        self._places = places
        self.counts = np.bincount(places, weights, minlength=len(there))

    @property
    def cells(self) -> Codes:
        """(kinds,) the cell of each; -1 for all hidden cells."""
        return np.where(self.told[self._places], self._places, -1)

    def hide_small(self) -> None:
        """Hide cells until each cell, and the hidden one, has LEAST_CELL records, or nothing is told."""
        self.told &= self.counts >= LEAST_CELL
        hidden = self.there & ~self.told
        if hidden.any() and self.told.any() and self.counts[hidden].sum() < LEAST_CELL:
            self._hide_least(self.told)

    def join(self, side: frozenset[int]) -> None:
        """Hide the smallest cell of each side that lacks the hidden cell, -1, so that both sides have it."""
        within = np.isin(np.arange(len(self.told)), list(side))
        hidden = bool((self.there & ~self.told).any())
        for part, has_hidden in ((within, hidden and -1 in side), (~within, hidden and -1 not in side)):
            if not has_hidden:
                self._hide_least(self.told & part)

    def _hide_least(self, among: Mask) -> None:
        self.told[np.where(among, self.counts, np.inf).argmin()] = False


def _weakest(columns: list[_Column], weights: Codes) -> tuple[_Column, frozenset[int]] | None:
    """A column and a side of it with fewer than LEAST_CELL pairs; None if there is none.

    Of several columns, the one with most cells, which loses least if one is hidden; of those the last.
    """
    found = []
    for place, column in enumerate(columns):
        others = [other.cells for other in columns if other is not column]
        cells, side = _weak_side(column.cells, others, weights)
        if side:
            found.append((cells, place, side))
    _, place, side = max(found, default=(0, 0, frozenset()))
    return (columns[place], side) if side else None


def _weak_side(cells: Codes, others: list[Codes], weights: Codes) -> tuple[int, frozenset[int]]:
    """Number of cells, and a side with fewer than LEAST_CELL pairs; empty if there is none."""
    names, row = np.unique(cells, return_inverse=True)
    _, context = np.unique(np.stack([0 * cells, *others], axis=1), axis=0, return_inverse=True)
    table = np.zeros((len(names), int(context.max()) + 1))
    np.add.at(table, (row, context.reshape(-1)), weights)
    rows, members = _tied(table)
    pairs, side = least_parting(rows)
    weak = pairs < LEAST_CELL
    return len(names), frozenset(int(names[i]) for one in side for i in members[one]) if weak else frozenset()


def _tied(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[tuple[int, ...]]]:
    """The table with rows merged that no weak side can separate from the largest; and the members of each.

    Two rows with LEAST_CELL pairs between them are on the same side of any cut with fewer. Of a thousand
    classes most merge at once, where passes over all of them would take minutes.
    """
    hub = int(table.sum(1).argmax())
    within = np.arange(len(table)) == hub
    while (more := ~within & (np.minimum(table, table[within].sum(0)).sum(1) >= LEAST_CELL)).any():
        within |= more
    rest = np.flatnonzero(~within)
    members = [tuple(map(int, np.flatnonzero(within))), *((int(i),) for i in rest)]
    return np.concatenate([table[within].sum(0, keepdims=True), table[rest]]), members


def least_parting(table: NDArray[np.float64]) -> tuple[float, tuple[int, ...]]:
    """The smallest number of pairs over all ways to cut the rows in two, and one side of such a cut.

    table: (cells, contexts) numbers of records. Queyranne's algorithm: each pass ends with two rows of which
    the last alone is the best side that separates it from the other; they are then merged.
    """
    total = table.sum(0)

    def pairs(sides: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.minimum(sides, total - sides).sum(-1)
        return found

    rows = table.copy()
    members: list[tuple[int, ...]] = [(i,) for i in range(len(table))]
    best, side = np.inf, members[0]  # a single row has none
    while len(members) > 1:
        alone, taken, rest = pairs(rows), rows[0], list(range(1, len(members)))
        order = [0]
        while rest:
            chosen = int((pairs(taken + rows[rest]) - alone[rest]).argmin())
            order.append(rest.pop(chosen))
            taken = taken + rows[order[-1]]
        before, last = order[-2:]
        if alone[last] < best:
            best, side = float(alone[last]), members[last]
        members[before] += members[last]
        rows[before] += rows[last]
        members.pop(last)
        rows = np.delete(rows, last, axis=0)
    return float(best), side
