"""A console table: in columns if they fit the width, otherwise as a block for each row."""

import sys
from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from fl_dp.reporting.wording import folded, packed

_GAP = "  "
_LEAST = 12  # of a column of words


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[str] = (),
    console: Console | None = None,
) -> None:
    """Print `rows`: each has a cell for each of `columns`, or one cell alone. Heads are never cut.

    left: columns of words. The others are aligned right and never broken. The width is that of the terminal,
    or of the variable COLUMNS, or else 80.
    """
    console = console or Console(file=sys.stdout)
    whole = [row for row in rows if len(row) == len(columns)]
    widths = _widths(columns, whole, left, console.width)
    if widths:
        lines = _in_columns(columns, rows, widths, left)
    else:
        lines = _in_blocks(columns, rows, left, console.width)
    for line in folded(title, console.width):
        console.print(Text(line, style="bold"), soft_wrap=True)
    for line in lines:
        console.print(Text(line), soft_wrap=True)  # Text: names are no markup


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str], width: int
) -> list[int]:
    """Column widths; empty if they do not fit. Heads and words break at spaces, words also within."""
    wanted = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    least = [
        max(
            max(map(cell_len, name.split())),
            min(full, _LEAST) if name in left else max((cell_len(row[place]) for row in rows), default=0),
        )
        for place, (name, full) in enumerate(zip(columns, wanted, strict=True))
    ]
    room = width - len(_GAP) * (len(columns) - 1)
    if sum(least) > room:
        return []
    while sum(wanted) > room:
        widest = max(range(len(wanted)), key=lambda place: (wanted[place] > least[place], wanted[place]))
        wanted[widest] -= 1
    return wanted


def _in_columns(
    columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], left: Collection[str]
) -> Iterator[str]:
    for row in (columns, *rows):
        if len(row) < len(columns):
            yield from folded(row[0], sum(widths) + len(_GAP) * (len(widths) - 1))
            continue
        cells = [folded(cell, width) for cell, width in zip(row, widths, strict=True)]
        for place in range(max(map(len, cells))):
            parts = (
                _aligned(lines[place] if place < len(lines) else "", width, to_left=name in left)
                for lines, width, name in zip(cells, widths, columns, strict=True)
            )
            yield _GAP.join(parts).rstrip()


def _aligned(text: str, width: int, *, to_left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if to_left else space + text


def _in_blocks(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str], width: int
) -> Iterator[str]:
    """The cells of each row, each after its head. A first cell of words has no head."""
    for row in rows:
        named = [f"{name}: {cell}" for name, cell in zip(columns, row, strict=False)]
        first = row[0] if columns[0] in left or len(row) < len(columns) else named[0]
        yield from packed((first, *named[1:]), width)
