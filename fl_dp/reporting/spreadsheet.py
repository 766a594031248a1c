"""CSV cells that a spreadsheet opens without computing anything."""

import re

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet takes for a formula
_NUMBER = re.compile(r"-(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-inf")


def disarmed(value: object) -> str:
    """The cell, prefixed with an apostrophe if a spreadsheet might compute it; numbers stay numbers.

    Spaces before a formula do not hide it. None is an empty cell.
    """
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not text.startswith(_FORMULAS) and not text.lstrip().startswith(_FORMULAS):
        return text
    return text if _NUMBER.fullmatch(text) else f"'{text}"
