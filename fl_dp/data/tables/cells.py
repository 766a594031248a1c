"""Cells of tables, which are texts: whether two mean the same, and which declared value a cell is."""

import re
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Cells = NDArray[np.object_]  # (n,) texts without surrounding spaces
Value = str | int | float  # in a schema: a text means itself, a number every way to write it

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?", re.IGNORECASE)
_SWAPPED = str.maketrans(",.", ".,")
_DIGITS = 400  # of a number: so many that none in a file is rounded, and unequal numbers stay unequal


def plain(text: str) -> str:
    """One text for every way to write a number: 63, 63.0 and 6.3e1; any other text unchanged."""
    if len(text) > _DIGITS or not _NUMBER.fullmatch(text):
        return text
    with localcontext(prec=_DIGITS):
        number = Decimal(text).normalize()
    return str(number if number else Decimal(0))  # not -0


def pointed(text: str, decimal: str) -> str:
    """`text` with a point where the file's numbers have `decimal`: "1,5" becomes "1.5".

    With decimal commas, a point becomes a comma, so that the cell is no number: 1.234 may mean a thousand.
    """
    return text if decimal == "." else text.translate(_SWAPPED)


def codes_of(cells: Cells, groups: Sequence[Sequence[Value]], decimal: str = ".") -> NDArray[np.int64]:
    """(n,) for each cell the number of its group; -1 if it is in none.

    decimal: of numbers in the cells; texts mean themselves.
    """
    texts = {value: i for i, group in enumerate(groups) for value in group if isinstance(value, str)}
    numbers = {
        plain(str(value)): i
        for i, group in enumerate(groups)
        for value in group
        if not isinstance(value, str)
    }

    def code(text: str) -> int:
        return texts[text] if text in texts else numbers.get(plain(pointed(text, decimal)), -1)

    places, distinct = pd.factorize(cells)
    codes: NDArray[np.int64] = np.array([code(text) for text in distinct], dtype=np.int64)[places]
    return codes


def numbers_of(cells: Cells, decimal: str = ".") -> NDArray[np.float64]:
    """(n,) the cells as numbers; NaN for one that is no number, written with `decimal`."""
    texts = pd.Series([pointed(cell, decimal) for cell in cells], dtype=object)
    return np.asarray(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
