"""A given ledger, or an export of one: read, and never written, converted or repaired."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.accounting.ledger.accounts import Account, AccountBook
from fl_dp.accounting.ledger.event_log import Event
from fl_dp.accounting.ledger.export import FORMAT
from fl_dp.accounting.ledger.files import find_ledger, openings_file
from fl_dp.accounting.ledger.hash_chain import Row, first_broken
from fl_dp.clean_text import clean
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.verify.ledger_rows import kept_rows
from fl_dp.verify.reading import lines, opened, parse_json, read_json, table, text, whole

_MOST_OPENING = 4096  # characters in a line
_DAMAGED = (FlDpError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Opening:
    """What opens a commitment: salt and head, in hex."""

    salt: str
    head: str


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """rows: verified. openings: by commitment, from the file beside it; empty if there is none."""

    path: Path
    rows: tuple[Row, ...]
    openings: dict[str, Opening]

    def accounts(self) -> list[Account]:
        """The accounts as they are now. ConfigError if the rows are no ledger's."""
        book = self.book()
        return book.accounts() if book else []

    def book(self, head: str | None = None) -> AccountBook | None:
        """The ledger's contents as of the row whose hash is `head`, "" before the first; None: no such row.

        head None: the contents now. ConfigError if the rows are no ledger's.
        """
        rows = self.rows
        if head is not None:
            ends = [0] if head == "" else [row.id for row in rows if row.hash == head]
            if not ends:
                return None
            rows = rows[: ends[0]]
        book = AccountBook()
        for row in rows:
            try:
                book.add(Event(row.id, table(json.loads(row.content))))
            except _DAMAGED:
                raise ConfigError(f"{self.path.name}: entry {row.id} is no entry of a ledger.") from None
        return book


def given_ledger(path: Path) -> Path:
    """See `find_ledger`; ConfigError if nothing is there."""
    found = find_ledger(path)
    if not found.is_file():
        raise ConfigError(
            f"--ledger {path}: is not there; name a ledger's folder, its file or an export of it."
        )
    return found


def read_ledger(path: Path) -> LedgerFile:
    """ConfigError if the file cannot be read, or its chain is broken."""
    with opened(path) as file:
        is_export = file.read(1) == b"{"
    rows, made = _exported(path) if is_export else kept_rows(path)
    broken = first_broken(rows, made)
    if broken is not None:
        raise ConfigError(f"{path.name}: entry {broken} was edited, removed or cut off; its chain is broken.")
    openings = openings_file(path)
    return LedgerFile(path, tuple(rows), _openings(openings) if openings.is_file() else {})


def _exported(path: Path) -> tuple[list[Row], int]:
    found = read_json(path)
    try:
        if (wrote := text(table(found)["format"])) != FORMAT:
            raise ConfigError(f"{path.name} has format {clean(wrote)!r}, and this fl_dp reads {FORMAT!r}.")
        return [_row(*(one[key] for key in Row._fields)) for one in map(table, found["rows"])], whole(
            found["entries"]
        )
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path.name} is no export of a ledger ({FORMAT}).") from None


def _row(number: Any, content: Any, hashed: Any) -> Row:
    return Row(whole(number), text(content), text(hashed))


def _openings(path: Path) -> dict[str, Opening]:
    found = {}
    for number, line in lines(path):
        where = f"{path.name}, line {number}"
        if len(line) > _MOST_OPENING:
            raise ConfigError(f"{where} is too long.")
        try:
            one = table(parse_json(line, where))
            found[text(one["commitment"])] = Opening(text(one["salt"]), text(one["head"]))
        except (ValueError, KeyError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{where} is damaged.") from None
    return found
