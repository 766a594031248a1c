"""The names of a ledger's files, and where they are looked for."""

from pathlib import Path

from fl_dp.durable_files import state_folder
from fl_dp.errors import ConfigError

LEDGER = "ledger.sqlite"
_OPENINGS = "statements.jsonl"


def ledger_file(folder: Path) -> Path:
    """The ledger in `folder`, existing or not: one for the data of all clients of a machine."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--ledger {folder}: expected a folder; the ledger in it is {LEDGER}.")
    return folder.absolute() / LEDGER


def lasting_ledger() -> Path:
    """The folder of the ledger for this account's real clients, unless they name another."""
    return state_folder() / "ledger"


def openings_file(ledger: Path) -> Path:
    """The file beside a ledger with which its owner can open the commitments of its statements."""
    return ledger.parent / _OPENINGS


def find_ledger(path: Path, *folders: Path) -> Path:
    """The ledger that `path` names: the file itself, existing or not, or the one in that folder.

    folders: where else to look if `path` is a folder. ConfigError if there is none.
    """
    if not path.is_dir():
        return path
    looked = [folder / LEDGER for folder in (path, *folders)]
    for file in looked:
        if file.exists():
            return file
    raise ConfigError(
        f"{path}: holds no ledger; looked for {' and '.join(map(str, looked))}. Name a ledger's file or "
        "folder, or a run's folder."
    )
