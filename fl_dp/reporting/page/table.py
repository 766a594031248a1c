"""A table of a page: its rows as texts. What is not shown of a long one is said, and is in the CSV files."""

from dataclasses import dataclass

SHOWN = 20  # rows in sight
LISTED = 200  # rows of the page, the rest of them behind <details>


@dataclass(frozen=True, slots=True)
class Table:
    """rows: a text for each of `columns`; the first is the row's heading. words: columns that are texts."""

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[str] = frozenset()

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        return self.rows[:SHOWN]

    @property
    def listed(self) -> tuple[tuple[str, ...], ...]:
        return self.rows[:LISTED]

    @property
    def more(self) -> tuple[tuple[str, ...], ...]:
        return self.rows[SHOWN:LISTED]

    @property
    def left_out(self) -> int:
        return max(0, len(self.rows) - LISTED)
