"""A first draft of a schema file, for a human to go over: names of columns, and what they seem to be.

Ranges and categories stay blank. Taken from the records they would tell of them: of the oldest patient, say.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl_dp.data.tables.cells import Cells, numbers_of
from fl_dp.data.tables.encode import Table

_MISSING = ("", "?", "NA", "N/A", "nan", "NaN", "null", "None")
_MOST_CATEGORIES = 50  # of a column of texts: one with more is rather a name, and is ignored in a draft


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator has said. label, group: names of columns. public: the records are no secret."""

    label: str = ""
    group: str = ""
    public: bool = False


def draft_schema(table: Table, wishes: Wishes, file: str, separator: str = ",") -> str:
    """The text of a schema file for the table that was read from `file`."""
    header = [] if table.named else ["header = false                 # the columns stand in this order"]
    if separator != ",":
        header.append(f"separator = {_text(separator)}")
    lines = [
        *_preface(wishes, file),
        f"missing = [{', '.join(map(_text, _MISSING))}]",
        *header,
        'split = "hash"                 # a fifth of the records is for testing; "none": none is',
    ]
    for name, cells in zip(table.names, table.columns, strict=True):
        lines += ["", f"[columns.{_text(name)}]", *_column(name, cells, wishes)]
    return "\n".join(lines) + "\n"


def _preface(wishes: Wishes, file: str) -> Iterator[str]:
    if wishes.public:
        yield f"# --public: ranges and categories were taken from the records of {file}, which are thereby"
        yield "# published: do so with public records alone."
    else:
        yield f"# A draft for {file}. Fill in ranges and categories from what is known without the records:"
        yield "# what you take from private records is published with this file."
    yield "# Kinds (number, category, label, target, group, split, ignore) are guesses: check each."


def _column(name: str, cells: Cells, wishes: Wishes) -> Iterator[str]:
    if name == wishes.group:
        yield 'kind = "group"'
        return
    known = np.array([cell for cell in cells if cell not in _MISSING], dtype=object)
    is_number = len(known) > 0 and bool(np.isfinite(numbers_of(known)).all())
    if name == wishes.label:
        yield 'kind = "label"'
        yield f"classes = [{_values(known) if wishes.public else ''}]"
        return
    if not is_number and len(set(known)) > _MOST_CATEGORIES:
        yield 'kind = "ignore"               # many different texts; a category, a group?'
        return
    yield f'kind = "{"number" if is_number else "category"}"'
    if is_number:
        numbers = numbers_of(known)
        yield f"range = [{_range(numbers) if wishes.public else ''}]"
    else:
        yield f"categories = [{_values(known) if wishes.public else ''}]"
    if wishes.public and len(known) < len(cells):
        yield 'if-missing = "encode"'


def _range(numbers: np.ndarray) -> str:
    """From the least to the largest; the upper end is above the lower one, even if all are the same."""
    low, high = float(numbers.min()), float(numbers.max())
    return f"{low!r}, {high if high > low else low + 1!r}"


def _values(known: Cells) -> str:
    return ", ".join(_text(text) for text in sorted(set(known)))


def _text(text: str) -> str:
    """As TOML writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'
