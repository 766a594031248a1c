"""The ledger that a path names: the file itself, or the one of a folder that other commands take."""

from pathlib import Path

from fl_dp.accounting.ledger.files import find_ledger
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def named_ledger(path: Path) -> Path:
    """See `find_ledger`. A folder may also be a run's, whose launch.toml says where its ledgers are."""
    folder = RunFolder(path)
    if folder.launch.exists():
        return find_ledger(path, Launch.read(folder).ledgers)
    return find_ledger(path, *([folder.ledgers] if folder.ledgers.is_dir() else []))
