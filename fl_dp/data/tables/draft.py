"""A first draft of a schema file, for a person to complete: column names and guessed kinds.

Ranges and categories stay blank: taken from records, they would reveal the age of the oldest patient, say.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl_dp.data.tables.cells import Cells, numbers_of
from fl_dp.data.tables.columns import Mask
from fl_dp.data.tables.encode import Table

_MISSING = ("", "?", "NA", "N/A", "nan", "NaN", "null", "None")
_MOST_CATEGORIES = 50  # in a text column; one with more looks like a name, and is ignored in a draft
_MOST = 0.5  # if this share of a column's cells are numbers, the others may mark missing values


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator says. label, group: names of columns. public: the records are no secret."""

    label: str = ""
    group: str = ""
    public: bool = False


def draft_schema(
    table: Table, wishes: Wishes, file: str, separator: str = ",", encoding: str = "utf-8"
) -> str:
    """The text of a schema file for the table read from `file`."""
    decimal = _decimal(table, wishes)
    header = [] if table.named else ["header = false                 # the columns stand in this order"]
    if separator != ",":
        header.append(f"separator = {_text(separator)}")
    if encoding != "utf-8":
        header.append(f"encoding = {_text(encoding)}")
    if decimal != ".":
        header.append('decimal = ","                  # a guess: wrong where commas separate thousands')
    lines = [
        *_preface(wishes, file),
        f"missing = [{', '.join(map(_text, _MISSING))}]",
        *header,
        'split = "hash"                 # for testing: a fifth of the records; "none"; "file": another file',
    ]
    for name, cells in zip(table.names, table.columns, strict=True):
        lines += ["", f"[columns.{_text(name)}]", *_column(name, cells, wishes, decimal)]
    return "\n".join(lines) + "\n"


def _preface(wishes: Wishes, file: str) -> Iterator[str]:
    if wishes.public:
        yield f"# --public: ranges and categories were taken from the records of {file}, which are thereby"
        yield "# published: do so with public records alone."
    else:
        yield f"# A draft for {file}. Fill in ranges and categories from what is known without the records:"
        yield "# what you take from private records is published with this file."
    if not wishes.label:
        yield '# What is predicted? Give its column kind = "label", classes = [...]; a number is a "target".'
    yield "# Kinds (number, category, label, target, group, site, subgroup, split, ignore) are guesses: check"
    yield "# each."
    yield '# A file with a blank cell is refused, unless its column says if-missing = "drop" (the record), or'
    yield '# "encode" (an input of its own).'


def _decimal(table: Table, wishes: Wishes) -> str:
    """A comma if columns of numbers have commas, and none has points."""
    marks = {
        _mark(_known(cells))
        for name, cells in zip(table.names, table.columns, strict=True)
        if name not in (wishes.group, wishes.label)
    }
    return "," if "," in marks and "." not in marks else "."


def _mark(known: Cells) -> str:
    """The decimal mark of a column that is mostly numbers; empty if it is not, or all are whole."""
    points, commas = _share(known, "."), _share(known, ",")
    if max(points, commas) < _MOST or points == commas:
        return ""
    return "." if points > commas else ","


def _known(cells: Cells) -> Cells:
    return np.array([cell for cell in cells if cell not in _MISSING], dtype=object)


def _are_numbers(known: Cells, decimal: str) -> Mask:
    return np.isfinite(numbers_of(known, decimal))


def _share(known: Cells, decimal: str) -> float:
    """Share of numbers among the cells."""
    return float(_are_numbers(known, decimal).mean()) if len(known) else 0.0


def _column(name: str, cells: Cells, wishes: Wishes, decimal: str) -> Iterator[str]:
    known = _known(cells)
    if name == wishes.group:
        yield 'kind = "group"'
        return
    if name == wishes.label:
        yield 'kind = "label"'
        yield f"classes = [{_values(known) if wishes.public else ''}]"
        return
    share, many = _share(known, decimal), len(set(known)) > _MOST_CATEGORIES
    if _MOST <= share < 1:
        yield "# most cells are numbers: a number, and the others declared by missing = [...]?"
    if share == 1 or (many and share >= _MOST):
        yield from _number(known, wishes, decimal)
    elif many:
        yield 'kind = "ignore"               # many different texts; a category, a group?'
        return
    else:
        yield 'kind = "category"'
        yield f"categories = [{_values(known) if wishes.public else ''}]"
    if wishes.public and (len(known) < len(cells) or (many and share < 1)):
        yield 'if-missing = "encode"'


def _number(known: Cells, wishes: Wishes, decimal: str) -> Iterator[str]:
    """In public records, cells that are no number count as missing."""
    numbers = _are_numbers(known, decimal)
    yield 'kind = "number"'
    yield f"range = [{_range(numbers_of(known[numbers], decimal)) if wishes.public else ''}]"
    if wishes.public and not numbers.all():
        yield f"missing = [{', '.join(map(_text, _MISSING))}, {_values(known[~numbers])}]"


def _range(numbers: np.ndarray) -> str:
    """From the smallest to the largest; the upper end is above the lower one, even if all are equal."""
    low, high = float(numbers.min()), float(numbers.max())
    return f"{low!r}, {high if high > low else low + 1!r}"


def _values(known: Cells) -> str:
    return ", ".join(_text(text) for text in sorted(set(known)))


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'
