"""Whom a run's operator does not want asked any more: names in a file of the run's folder.

It is written while the run goes on, by `fl-dp server ban`, and read before each round.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from fl_dp.config.files import read_json
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError

FILE = "banned.json"
BANNED = "is banned by this run's operator (fl-dp server unban ends that)"


def read_banned(folder: Path) -> frozenset[str]:
    """The names in the run's folder; ConfigError where the file is damaged."""
    path = folder / FILE
    if not path.exists():
        return frozenset()
    names = read_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: is damaged: expected a list of names. Delete it, and ban anew.")
    return frozenset(names)


def write_banned(folder: Path, names: Iterable[str]) -> None:
    """On the disk when this returns, for its owner alone."""
    text = json.dumps(sorted(names))
    write_whole(folder / FILE, lambda file: file.write(text.encode()), secret=True)
