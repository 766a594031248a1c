"""A table on the console: with lines on a terminal, in bare columns on a pipe."""

import sys
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[str] = (),
    console: Console | None = None,
) -> None:
    """Print `rows`, a cell for each of `columns`. left: columns of words; the others are aligned right."""
    console = console or Console(file=sys.stdout)
    if not console.is_terminal:
        console.print(_plain(title, columns, rows), soft_wrap=True, markup=False, highlight=False)
        return
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: names are no markup
    console.print(table)


def _plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, *rows)
    )
    return "\n".join((title, *lines))
