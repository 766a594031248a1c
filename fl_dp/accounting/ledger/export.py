"""A ledger's entries as JSON, to be kept elsewhere, so that the ledger can later be checked against them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fl_dp.accounting.ledger.hash_chain import Row, first_broken, head
from fl_dp.config.files import DAMAGED
from fl_dp.errors import LedgerError

FORMAT = "fl-dp ledger 1"
CHAIN = "hash = SHA-256 in hex of: the hash before (empty for the first), a line feed, content; all in UTF-8"


def to_export(rows: Sequence[Row]) -> dict[str, Any]:
    """All entries, each with the exact text that its hash covers."""
    return {
        "format": FORMAT,
        "chain": CHAIN,
        "entries": len(rows),
        "head": head(rows),
        "rows": [row._asdict() for row in rows],
    }


def read_export(path: Path) -> list[Row]:
    """The entries of an export, verified; LedgerError if it is no export, or if one was edited or removed."""
    try:
        export = json.loads(path.read_text(encoding="utf-8"))
        rows = [Row(int(row["id"]), str(row["content"]), str(row["hash"])) for row in export["rows"]]
        sound = (export["format"], type(export["entries"])) == (FORMAT, int)
    except OSError as error:
        raise LedgerError(f"{path}: the export cannot be read: {error.strerror}.") from None
    except (*DAMAGED, KeyError, TypeError):
        sound = False
    if not sound:
        raise LedgerError(f"{path}: not an export that this fl_dp can read ({FORMAT}).")
    broken = first_broken(rows, export["entries"])
    if broken is None and head(rows) != export["head"]:
        broken = len(rows)
    if broken is not None:
        raise LedgerError(f"{path}: entry {broken} of the export was edited or removed.")
    return rows


def check_continues(path: Path, rows: Sequence[Row], earlier: Sequence[Row]) -> None:
    """LedgerError unless the ledger at `path`, which holds `rows`, continues where `earlier` ended.

    Finds what a hash chain alone cannot: a ledger that was restored from an older copy, or rewritten.
    """
    if len(rows) < len(earlier):
        raise LedgerError(
            f"{path}: holds {len(rows)} entries, the export {len(earlier)}: this is an older copy, and "
            "what was spent since then is missing. Restore the newest copy, or continue without one as "
            "docs/operating.md describes."
        )
    for row, exported in zip(rows, earlier, strict=False):
        if row != exported:
            raise LedgerError(
                f"{path}: entry {row.id} is not the one of the export: the ledger was rewritten."
            )
