"""Sites that are not asked: those that the run's operator has banned, and silent ones that rest.

The banned sites are in a file of the run's folder, which `fl-dp server ban` writes during the run and the
server reads before each round.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fl_dp.config.files import read_json
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.reporting.wording import counted

FILE = "banned.json"
BANNED = "is banned by this run's operator (fl-dp server unban ends that)"
_LONGEST = 10  # doublings: a thousand rounds


def read_banned(folder: Path) -> frozenset[str]:
    """The banned names in the run's folder; ConfigError if the file is damaged."""
    path = folder / FILE
    if not path.exists():
        return frozenset()
    names = read_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: is damaged: expected a list of names. Delete it, and ban anew.")
    return frozenset(names)


def write_banned(folder: Path, names: Iterable[str]) -> None:
    """Write the banned names, on the disk when this returns, readable by their owner alone."""
    text = json.dumps(sorted(names))
    write_whole(folder / FILE, lambda file: file.write(text.encode()), secret=True)


class SilentSites:
    """Sites that are there but do not answer rounds. Each costs a round its grace, and its own data a budget.

    A site that has missed a round must first register again and say what the round cost (`Registration`);
    after the first missed round nothing else follows. A site that registers but answers no round would be
    asked again and again, so after k missed rounds in a row it rests for 2^(k-1) - 1 rounds. Any answer to a
    round ends that; joining anew does not.
    state: by name, how many rounds it has missed in a row, and the last round of its rest.
    """

    def __init__(self) -> None:
        self.state: dict[str, tuple[int, int]] = {}

    def restore(self, state: Mapping[str, Collection[int]]) -> None:
        self.state = {name: (times, until) for name, (times, until) in state.items()}

    def note(self, name: str, server_round: int, *, answered: bool) -> None:
        """Note whether it has answered that round, for which it was asked."""
        if answered:
            self.state.pop(name, None)
            return
        missed, _ = self.state.get(name, (0, 0))
        self.state[name] = missed + 1, server_round + 2 ** min(missed, _LONGEST) - 1

    def rests(self, name: str, server_round: int) -> bool:
        return name in self.state and server_round <= self.state[name][1]

    def why(self, name: str) -> str:
        """Why it rests."""
        times, until = self.state[name]
        return f"has not answered {counted(times, 'round')} in a row; rests until after round {until}"
