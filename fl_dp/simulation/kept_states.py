"""The states that simulated clients' optimizers keep between rounds, in the run's folder.

They follow from noised gradients alone, and leave it for training processes only. A round's states are on the
disk before any of its answers leaves. Those from before stay until the round's result is in the run's state:
a round that is begun again starts from the same.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fl_dp.durable_files import write_whole

FOLDER = "optimizer"
_ENDING = ".pt"


class KeptStates:
    """A file for each client and round: `PART-ROUND.pt` in `folder`, which is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds = defaultdict[int, set[int]](set)  # of each part, those after which its state is kept
        for file in folder.glob(f"*-*{_ENDING}"):
            part, _, server_round = file.stem.partition("-")
            self._rounds[int(part)].add(int(server_round))

    def before(self, part: int, server_round: int) -> bytes:
        """The state after the part's last round before that one; empty where it starts anew."""
        earlier = [one for one in self._rounds[part] if one < server_round]
        return self._file(part, max(earlier)).read_bytes() if earlier else b""

    def save(self, server_round: int, states: Mapping[int, bytes]) -> None:
        """Keep the states after the round, by part; they are on the disk when this returns."""
        if states:
            self._folder.mkdir(parents=True, exist_ok=True)
        for part, state in states.items():
            write_whole(self._file(part, server_round), partial(_write, state), secret=True)
            self._rounds[part].add(server_round)

    def settle(self, up_to_round: int) -> None:
        """No round up to that one is begun again: of each part only its last state is needed."""
        for part, rounds in self._rounds.items():
            settled = sorted(one for one in rounds if one <= up_to_round)
            for old in settled[:-1]:
                self._file(part, old).unlink()
                rounds.remove(old)

    def _file(self, part: int, server_round: int) -> Path:
        return self._folder / f"{part}-{server_round}{_ENDING}"


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)
