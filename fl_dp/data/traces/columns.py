"""The columns of a table whose values tell its records apart, whatever a schema makes of them.

A few are enough, and must be the same ones when the table comes again with other columns, other names or
other records. So they are chosen twice: by their names, which stay when records change, and by their
contents, which stay when names change.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fl_dp.data.traces.traces import ALIKE, DIGITS, NOTHING, Hashes, Texts, Traces, agreement, hash_of

MOST = 5  # columns in a choice
_MOST_WHOLE = 24  # columns of a table whose whole records are looked at as well
_EXACT = 2.0**53  # whole numbers below are what they say
_MISSING = frozenset({"", "?", "-", "na", "n/a", "nan", "none", "null"})
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d{1,3})?")
_COUNTED = re.compile(r"(\D*)(\d{1,18})")
_NEARLY = 0.9  # of a numbering's records have a number that no other has; half of its numbers are used


class _Column(NamedTuple):
    """rank: the less, the better it tells records apart, in powers of two; equal ones go by a hash.

    by_contents: the least of its values' hashes, which a part of the records often has as well; then all.
    hashes: (n,) of its values. named: of its name and values, where the name says which column it is.
    """

    rank: int
    by_name: int
    by_contents: tuple[int, int]
    hashes: Hashes
    named: Hashes


def of_columns(records: int, columns: Iterable[tuple[str, Texts]]) -> Traces:
    """Of a table's columns, given by their names and (records,) cells."""
    by_name: list[_Column] = []
    by_contents: list[_Column] = []
    every: list[Hashes] = []
    total = np.zeros(records, dtype=np.uint64)
    for name, cells in columns:
        column = _column(name, cells)
        if column is not None:
            by_name = sorted([*by_name, column], key=lambda one: (one.rank, one.by_name))[:MOST]
            by_contents = sorted([*by_contents, column], key=lambda one: (one.rank, one.by_contents))[:MOST]
            total += column.named
            every = [*every, column.named][: _MOST_WHOLE + 1]
    if not every:
        return Traces(records)
    lacking = [total - column for column in every] if len(every) <= _MOST_WHOLE else []
    choices = [one.named for one in by_name], [one.hashes for one in by_contents]
    cells_of = tuple(np.stack(choice, axis=1) for choice in choices)
    return Traces(records, cells_of, np.stack([total, *lacking], axis=1))


def value_of(text: str) -> str:
    """One text for all spellings of a value: case, blanks, decimal commas, forms of a number; "" for none.

    Of a number with a fraction three digits count.
    """
    text = " ".join(text.casefold().split())
    if text in _MISSING:
        return ""
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text.replace(",", "."))
    if number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    return f"{number:.{DIGITS}g}"


def _column(name: str, cells: Texts) -> _Column | None:
    """None for one that tells nothing: one value alone, or a numbering, which other tables have as well."""
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
    """Whether they are whole numbers in a row, behind the same letters: ids as many tables have them."""
    found = [_COUNTED.fullmatch(value) for value in set(values)]
    if len(found) < _NEARLY * records or not all(found):
        return False
    if len({one[1] for one in found if one}) > 1:
        return False
    numbers = [int(one[2]) for one in found if one]
    return max(numbers) - min(numbers) + 1 <= 2 * len(numbers)


def _hash_of(text: str) -> np.uint64:
    return hash_of(text.encode("utf-8", "surrogatepass"))
