"""Cells of a CSV file that a spreadsheet opens without computing anything."""

import re

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes a cell for a formula by
_NUMBER = re.compile(r"-(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-inf")


def disarmed(value: object) -> str:
    """The cell, with an apostrophe before it where a spreadsheet might compute it; numbers stay numbers.

    Spaces before a formula do not hide it. None is an empty cell.
    """
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not text.startswith(_FORMULAS) and not text.lstrip().startswith(_FORMULAS):
        return text
    return text if _NUMBER.fullmatch(text) else f"'{text}"
