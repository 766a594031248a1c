"""`fl-dp new`: a new user folder, with a task that trains as it stands."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import say
from fl_dp.errors import ConfigError

TEMPLATE = Path(__file__).parent / "new_folder"
_TEXT = ".txt"  # suffix of files that become Python but must not be part of fl_dp


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.", show_default=False)],
) -> None:
    """Write a folder with a task, a run config and a README.

    It trains as it stands; the README has the commands."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ConfigError(f"{folder}: already exists and is not empty; name a new folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(TEMPLATE.iterdir()):
            shutil.copyfile(file, folder / file.name.removesuffix(_TEXT))
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}.") from None
    say(f"{folder} is ready; try it:")
    say(f"  cd {folder} && fl-dp run --config run.toml --simulate")
