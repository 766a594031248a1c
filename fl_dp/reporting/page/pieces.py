"""The parts of a page: clauses of the guarantee, and tables of texts."""

from dataclasses import dataclass

SHOWN = 20  # visible rows
LISTED = 200  # rows on the page; those not visible are behind <details>


@dataclass(frozen=True, slots=True)
class Clause:
    """One point of the guarantee: a heading, sentences, and perhaps a list after them."""

    heading: str
    text: str
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """rows: a text for each of `columns`; the first is the row's heading. words: text columns.

    The page says what it leaves out of a long table.
    """

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
