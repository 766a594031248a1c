"""The table columns whose values tell its records apart, whatever a schema makes of them.

A few are enough, and must be the same when the table returns with other columns, other names or other
records. So they are chosen twice: by their names, which stay when records change, and by their contents,
which stay when names change.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fl_dp.data.traces.traces import ALIKE, DIGITS, NOTHING, Cells, Hashes, Texts, Traces, agreement, hash_of

MOST = 5  # columns in a choice
_GROUPS, _LACKING = 8, 3  # of all columns; the number of groups that may differ in a set
_MOST_IN_FLOAT32 = 3e38
_EXACT = 2.0**53  # whole numbers below this are exact
_MISSING = frozenset({"", "?", "-", "na", "n/a", "nan", "none", "null"})
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d{1,3})?")
_COUNTED = re.compile(r"(\D*)(\d{1,18})")
_NEARLY = 0.9  # of a numbering's records have a number of their own; half of its numbers are used


_Order = tuple[int, ...]


class _Column(NamedTuple):
    """rank: the smaller, the better it tells records apart, in powers of two; ties go by a hash.

    by_contents: the smallest hash of its values, which a subset of the records often has as well; then all.
    hashes: (n,) of its values. named: of its name and values, if the name identifies the column.
    """

    rank: int
    by_name: int
    by_contents: tuple[int, int]
    hashes: Hashes
    named: Hashes


def of_columns(records: int, columns: Iterable[tuple[str, Texts]]) -> Traces:
    """Traces of a table's columns, given by their names and (records,) cells."""
    by_name, by_contents = _Choice(records), _Choice(records)
    for name, cells in columns:
        column = _column(name, cells)
        if column is not None:
            least, total = column.by_contents
            by_name.take((column.rank, column.by_name), column.by_name, column.named)
            by_contents.take((column.rank, least, total), total, column.hashes)
    if not by_name.groups.any():
        return Traces(records)
    return Traces(records, (*by_name.cells(), *by_contents.cells()), by_name.groups.sum(axis=1))


class _Choice:
    """Columns under one way to recognise them: the best few, and all of them in groups.

    So records are also known by columns of few values each, such as answers to questions: where all columns
    of some groups are the same.
    """

    def __init__(self, records: int) -> None:
        self.groups, self._rest = (np.zeros((records, _GROUPS), dtype=np.uint64) for _ in range(2))
        self._best: list[tuple[_Order, Hashes]] = []
        self._strongest: dict[int, tuple[_Order, Hashes]] = {}  # by group

    def take(self, order: _Order, number: int, hashes: Hashes) -> None:
        """order: the smallest come first. number: identifies the column."""
        self._best = sorted([*self._best, (order, hashes)], key=_order)[:MOST]
        key = _hash_of(str(number))
        place = int(key) % _GROUPS
        column = order, hashes * (key | np.uint64(1))  # otherwise answers to two questions could be exchanged
        self.groups[:, place] += column[1]
        if place in self._strongest:
            self._strongest[place], weaker = sorted([column, self._strongest[place]], key=_order)
            self._rest[:, place] += weaker[1]
        else:
            self._strongest[place] = column

    def cells(self) -> Iterator[Cells]:
        hashes = np.stack([one for _, one in self._best], axis=1)
        yield Cells(hashes, np.broadcast_to(NOTHING, hashes.shape), least=2)
        some = sorted(self._strongest)
        yield Cells(self.groups[:, some], self._rest[:, some], least=max(2, len(some) - _LACKING))


def _order(column: tuple[_Order, Hashes]) -> _Order:
    return column[0]


def value_of(text: str) -> str:
    """One text for all spellings of a value: case, spaces, decimal commas, forms of a number; "" for none.

    For a number with a fraction three digits count, those of its float32: an array may hold no more of it,
    and would round a half the other way.
    """
    text = " ".join(text.casefold().split())
    if text in _MISSING:
        return ""
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text.replace(",", "."))
    if number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    if abs(number) < _MOST_IN_FLOAT32:
        number = float(np.float32(number))
    return f"{number:.{DIGITS}g}"


def _column(name: str, cells: Texts) -> _Column | None:
    """None for a column that tells nothing: one value, or a numbering, which other tables have too."""
    places, distinct = pd.factorize(cells)
    values = [value_of(text) for text in distinct]
    own = np.array(
        [hash_of(value.encode("utf-8", "surrogatepass")) if value else NOTHING for value in values]
    )
    hashes = own[places]
    likely = agreement(hashes)
    if likely == 1 or _is_numbering(values, len(cells)):
        return None
    named = np.array([_hash_of(f"{name}\n{value}") if value else NOTHING for value in values])
    return _Column(
        rank=int(np.floor(np.log2(max(likely, ALIKE)))),
        by_name=int(_hash_of(name)),
        by_contents=(int(own[own != NOTHING].min()), int(hashes.sum())),
        hashes=hashes,
        named=named[places],
    )


def _is_numbering(values: Sequence[str], records: int) -> bool:
    """Whether they are consecutive whole numbers after the same letters: ids as many tables have them."""
    found = [_COUNTED.fullmatch(value) for value in set(values)]
    if len(found) < _NEARLY * records or not all(found):
        return False
    if len({one[1] for one in found if one}) > 1:
        return False
    numbers = [int(one[2]) for one in found if one]
    return max(numbers) - min(numbers) + 1 <= 2 * len(numbers)


def _hash_of(text: str) -> np.uint64:
    return hash_of(text.encode("utf-8", "surrogatepass"))
