"""Stores what clients keep between rounds (`training/kept.py`) on their disk.

A round's states are on the disk before any of its answers leaves. Older states stay until the round's result
is in the run's state, so that a repeated round starts from the same state.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fl_dp.durable_files import private_folder, write_whole

FOLDER = "kept"
_ENDING = ".pt"


class KeptStates:
    """A file for each client and round, `CLIENT-ROUND.pt` in `folder`, which is created when needed.

    A client is a name without a hyphen, unique in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds = defaultdict[str, set[int]](set)  # by client, the rounds after which a state is kept
        for file in folder.glob(f"*-*{_ENDING}"):
            client, _, server_round = file.stem.partition("-")
            if server_round.isdecimal():  # otherwise it is not ours
                self._rounds[client].add(int(server_round))

    def before(self, client: str, server_round: int) -> bytes:
        """The state after the client's last round before that one; empty if it starts anew."""
        earlier = [one for one in self._rounds[client] if one < server_round]
        return self._file(client, max(earlier)).read_bytes() if earlier else b""

    def last(self, client: str) -> bytes:
        """The client's last state; empty if it has none."""
        return self.before(client, sys.maxsize)

    def save(self, server_round: int, states: Mapping[str, bytes]) -> None:
        """Save the states after the round, by client; they are on the disk when this returns."""
        if states:
            private_folder(self._folder)
        for client, state in states.items():
            write_whole(self._file(client, server_round), partial(_write, state), secret=True)
            self._rounds[client].add(server_round)

    def settle(self, up_to_round: int, client: str = "") -> None:
        """No round up to that one will be repeated: keep only the last state of each client, or of one."""
        for one in [client] if client else list(self._rounds):
            self._settle(one, up_to_round)

    def _settle(self, client: str, up_to_round: int) -> None:
        rounds = self._rounds[client]
        settled = sorted(one for one in rounds if one <= up_to_round)
        for old in settled[:-1]:
            self._file(client, old).unlink(missing_ok=True)
            rounds.remove(old)

    def _file(self, client: str, server_round: int) -> Path:
        return self._folder / f"{client}-{server_round}{_ENDING}"


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)
