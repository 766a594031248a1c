"""The Flower app bundle (FAB) of this project: pyproject.toml, server.py and client.py."""

from pathlib import Path

import fl_dp
from fl_dp.errors import LaunchError

PROJECT = Path(fl_dp.__file__).parents[1]
_FILES = ("pyproject.toml", "server.py", "client.py")


def build_bundle(project: Path = PROJECT) -> bytes:
    """The bundle's bytes; LaunchError when `project` is not a checkout of fl_dp."""
    from flwr.cli.build import build_fab_from_files

    files = {name: project / name for name in _FILES}
    for path in files.values():
        if not path.is_file():
            raise LaunchError(f"{path}: not found; a federation is started from a checkout of fl_dp.")
    return build_fab_from_files(files)[0]
