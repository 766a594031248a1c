"""How many of a run's secure sums a client has paid for and never opened: a server can make them all fail.

A sum that is not opened costs the client's budget and teaches nobody anything. The client cannot see why it
was lost, so it counts: all of a run, on its disk, written before the masked step leaves.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.config.files import read_json
from fl_dp.durable_files import private_folder, write_whole
from fl_dp.errors import DeclinedError, FlDpError
from fl_dp.federation.client.kept_states import FOLDER
from fl_dp.federation.client.registration import account_digest

_MOST_RUNS = 64


@dataclass(frozen=True, slots=True)
class LostRounds:
    """Of one client's data. most: as its settings allow in one run."""

    path: Path
    most: int

    @classmethod
    def of(cls, config: ClientConfig) -> "LostRounds":
        folder = Path(config.ledger).absolute().parent / FOLDER
        return cls(folder / f"{account_digest(config)}.sums.json", config.max_lost_rounds)

    def check(self, run: str) -> None:
        """DeclinedError where the run has lost more of what these data have paid for than the settings allow."""
        lost = self._read().get(run, 0)
        if lost >= self.most:
            raise DeclinedError(
                f"this run has left {lost} secure sums unopened that this client had paid for (max-lost-rounds = "
                f"{self.most}): it takes no part in it any more."
            )

    def paid(self, run: str) -> None:
        """One more is paid for; on the disk when this returns."""
        self._add(run, 1)

    def opened(self, run: str) -> None:
        """The one that was paid for last is opened."""
        self._add(run, -1)

    def _add(self, run: str, change: int) -> None:
        table = self._read()
        count = max(0, table.pop(run, 0) + change)
        table[run] = count  # the newest last
        newest = dict(list(table.items())[-_MOST_RUNS:])
        private_folder(self.path.parent)
        write_whole(self.path, lambda file: file.write(json.dumps(newest).encode()), secret=True)

    def _read(self) -> dict[str, int]:
        if not self.path.exists():
            return {}
        table = read_json(self.path)
        if not isinstance(table, dict) or not all(type(one) is int and one >= 0 for one in table.values()):
            raise FlDpError(
                f"{self.path.name}: is damaged; its lost rounds are not known. Delete it to begin anew."
            )
        return table
