"""Text that strangers wrote, made fit to be looked at: on a console, in a log, on a page, in a finding.

| danger | what becomes of it |
|---|---|
| control characters, and the terminal escapes that begin with them | their number, such as \\u001b |
| characters that turn the direction of writing, have no width, or are not assigned | their number |
| letters that look like nothing at all | their number |
| line ends, and blanks of other widths: a line or column could be forged | a space each |
| accents piled on one letter run over other lines, or carry hidden text | three stay |
| length | cut, with … at the end |

What is returned is never changed by a second cleaning. Letters that only look like others stay.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any

LONGEST = 300  # characters of a name or a reason
_MOST_OF_JSON = 4096  # of a text in a file: a path may have as many
_MARKS = 3  # on one letter; Hebrew and Vietnamese need as many
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # printable, say their categories


def clean(text: object, longest: int = LONGEST) -> str:
    """`text` on one line of at most `longest` characters, each of them printable; see above."""
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
    """`clean`, of a text of several lines: with one blank between its words."""
    return clean(" ".join(str(text).split()), longest)


def clean_json(value: Any) -> Any:
    """`value`, as JSON has it, with every text in it `clean`; keys, too."""
    if isinstance(value, str):
        return clean(value, _MOST_OF_JSON)
    if isinstance(value, Mapping):
        return {clean_json(key): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value
