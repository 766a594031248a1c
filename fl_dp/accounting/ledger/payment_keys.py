"""The secret bytes of payments, from which their random numbers follow: kept beside the entries, then erased.

They are not entries. Entries are kept for good and exported; these bytes must be neither, because anyone who
has them can remove the noise of the round.
"""

import secrets
from collections.abc import Callable

from fl_dp.accounting.ledger.database import Database

KEY_BYTES = 32
TABLE = "CREATE TABLE IF NOT EXISTS payment_keys (reservation INTEGER PRIMARY KEY, key BLOB NOT NULL)"


def new_key() -> bytes:
    """Secret bytes for one payment, from the system's entropy."""
    return secrets.token_bytes(KEY_BYTES)


class PaymentKeys:
    """The keys that a file keeps, by the number of the reservation. Use it only inside `Database.writing`.

    An erased key is in no byte of the file. SQLite overwrites what it deletes, but when it moves a row
    between pages, an old copy can stay. So rows are never moved: they are added at the end, since numbers
    rise, and all erased together; those that stay are then written anew.
    After a transaction that failed, use a new instance: the table may have been undone.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_table = False

    def keep(self, reservation: int, key: bytes) -> None:
        """Keep the key of the newest reservation."""
        self._make_table()
        self._database.execute(
            "INSERT INTO payment_keys (reservation, key) VALUES (?, ?)", (reservation, key)
        )

    def get(self, reservation: int) -> bytes | None:
        """The reservation's key; None if it was erased, or never kept."""
        self._make_table()
        found = self._database.query("SELECT key FROM payment_keys WHERE reservation = ?", (reservation,))
        return bytes(found[0][0]) if found else None

    def erase(self, which: Callable[[int], bool]) -> None:
        """Erase the keys of the selected reservations; if there are none, nothing is written."""
        self._make_table()
        kept = self._database.query("SELECT reservation, key FROM payment_keys ORDER BY reservation")
        stay = [(reservation, key) for reservation, key in kept if not which(reservation)]
        if len(stay) == len(kept):
            return
        self._database.execute("DELETE FROM payment_keys")  # without a condition: whole pages are overwritten
        for reservation, key in stay:
            self.keep(reservation, key)

    def _make_table(self) -> None:
        """Make the table on first use: a ledger of an older fl_dp has none."""
        if not self._has_table:
            self._database.execute(TABLE)
            self._has_table = True
