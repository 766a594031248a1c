"""Counts the secure sums that a client has paid for and that were never opened: a server can make all fail.

A sum that is not opened costs the client's budget and teaches nobody anything. The client cannot see why it
was lost. It counts over all runs, because the server chooses their names, and on disk, before a masked step
leaves.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fl_dp.config.client import ClientConfig
from fl_dp.config.files import read_json
from fl_dp.durable_files import one_at_a_time, private_folder, write_whole
from fl_dp.errors import DeclinedError, FlDpError
from fl_dp.federation.client.kept_states import FOLDER, kept_by

MOST_LOST = 10  # sums, over all runs
_ENDING = ".sums.json"
_PAID, _OPENED = "paid", "opened"


@dataclass(frozen=True, slots=True)
class LostRounds:
    path: Path

    @classmethod
    def of(cls, config: ClientConfig) -> Self:
        return cls(kept_by(config, _ENDING))

    def check(self) -> None:
        """DeclinedError if MOST_LOST were lost."""
        table = self._read()
        lost = table[_PAID] - table[_OPENED]
        if lost >= MOST_LOST:
            raise DeclinedError(
                f"{lost} secure sums that this client had paid for were never opened, so it joins no "
                f"further ones. An operator who knows the cause may delete {FOLDER}/*{_ENDING} beside the "
                "ledger."
            )

    def paid(self) -> None:
        """Count one more as paid for; it is on the disk when this returns."""
        self._add(_PAID)

    def opened(self) -> None:
        self._add(_OPENED)

    def _add(self, what: str) -> None:
        private_folder(self.path.parent)
        with one_at_a_time(self.path.with_suffix(".lock")):  # clients of several federations may share data
            table = self._read()
            table[what] += 1
            write_whole(self.path, lambda file: file.write(json.dumps(table).encode()), secret=True)

    def _read(self) -> dict[str, int]:
        if not self.path.exists():
            return {_PAID: 0, _OPENED: 0}
        table = read_json(self.path)
        sound = isinstance(table, dict) and table.keys() == {_PAID, _OPENED}
        if not sound or not all(type(one) is int and one >= 0 for one in table.values()):
            raise FlDpError(
                f"{self.path.name}, beside the ledger, is damaged: it counts lost secure sums. Delete it to "
                "count from zero."
            )
        return dict(table)
