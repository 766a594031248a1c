"""Tables in Markdown, whose columns line up as plain text too."""

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """The first `left` columns are aligned to the left, the others to the right; short rows are filled up."""
    filled = [[*row, *[""] * (len(headings) - len(row))] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *filled, strict=True)]
    widths = [max(width, 3) for width in widths]  # Markdown's least rule

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join(line(cells) for cells in [headings, rule, *filled])
