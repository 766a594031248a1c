"""Makes untrusted text safe to show on a console, in a log, on a page or in a finding.

| danger | replaced by |
|---|---|
| control characters, and the terminal escapes that begin with them | their number, such as \\u001b |
| characters that change the writing direction, have no width, or are unassigned | their number |
| letters that look like a blank | their number |
| line ends, and blanks of other widths, which could forge a line or column | a space each |
| accents stacked on one letter, which cover other lines or carry hidden text | the first three |
| too long a text | cut, with … at the end |

Cleaning twice gives the same as cleaning once. Letters that look like other letters are kept.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any

LONGEST = 300  # characters of a name or a reason
_MOST_OF_JSON = 4096  # characters of a text in a JSON file: a path may be that long
_MARKS = 3  # on one letter, as Hebrew and Vietnamese need
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # blank, although their categories are printable


def clean(text: object, longest: int = LONGEST) -> str:
    """`text` as one line of at most `longest` characters, all printable; see above."""
    whole = str(text)
    found: list[str] = []
    marks = 0
    for one in whole[: longest + 1]:
        marks = marks + 1 if unicodedata.category(one) in ("Mn", "Me") else 0
        if one.isspace():
            found.append(" ")
        elif one in _BLANK or not one.isprintable():
            found.append(f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}")
        elif marks <= _MARKS:
            found.append(one)
    shown = "".join(found)
    return shown if max(len(shown), len(whole)) <= longest else f"{shown[: longest - 1]}…"


def one_line(text: object, longest: int = LONGEST) -> str:
    """`clean`, for a text of several lines: all whitespace between words becomes one space."""
    return clean(" ".join(str(text).split()), longest)


def clean_json(value: Any) -> Any:
    """A JSON value with every text in it, keys included, made `clean`."""
    if isinstance(value, str):
        return clean(value, _MOST_OF_JSON)
    if isinstance(value, Mapping):
        return {clean_json(key): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value
