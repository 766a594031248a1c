"""The ledger that a path names: the file itself, or the one of a folder that other commands take."""

from pathlib import Path

from fl_dp.errors import ConfigError
from fl_dp.launch.clients import LEDGER
from fl_dp.launch.resumption import Launch
from fl_dp.reporting.run_folder import RunFolder


def named_ledger(path: Path) -> Path:
    """The ledger's file: `path` itself unless it is a folder.

    A folder is that of ledgers (`--ledger DIR`), or of a run, whose launch.toml says where its ledgers are.
    ConfigError where there is no ledger.
    """
    if not path.is_dir():
        return path
    looked = [path / LEDGER]
    folder = RunFolder(path)
    if folder.launch.exists():
        looked.append(Launch.read(folder).ledgers / LEDGER)
    elif folder.ledgers.is_dir():
        looked.append(folder.ledgers / LEDGER)
    for file in looked:
        if file.exists():
            return file
    raise ConfigError(
        f"{path}: holds no ledger; looked for {' and '.join(map(str, looked))}. Name a ledger's file or "
        "folder, or a run's folder."
    )
