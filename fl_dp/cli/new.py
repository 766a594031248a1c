"""`fl-dp new`: a user folder whose task trains as it stands, or a config that explains every key."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from fl_dp.cli.common import command, say, write_new
from fl_dp.config.all_keys import client_file, run_file
from fl_dp.errors import ConfigError

TEMPLATE = Path(__file__).parent / "new_folder"
_TEXT = ".txt"  # suffix of files that become Python but must not be part of fl_dp


@command()
def new(
    path: Annotated[Path, typer.Argument(metavar="DIR|FILE.toml", help="New or empty folder, or new file.")],
    client: Annotated[
        bool, typer.Option("--client", help="Write a client's own settings, not a run config.")
    ] = False,
) -> None:
    """Write a folder of your own, or a config with every key.

    \b
    A folder with a task, a run config and a README; it trains as it stands:
      fl-dp new mine
    A run config in which every key is explained, and which runs as it stands:
      fl-dp new run.toml
    A client's settings, in which the data must be named first:
      fl-dp new client.toml --client

    An existing file is never overwritten.
    """
    if path.suffix == ".toml" or client:
        _write_config(path, client=client)
        return
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ConfigError(f"{path}: already exists and is not empty; name a new folder.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file in sorted(TEMPLATE.iterdir()):
            shutil.copyfile(file, path / file.name.removesuffix(_TEXT))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}.") from None
    say(f"{path} is ready; try it:")
    say(f"  cd {path} && fl-dp run --config run.toml --simulate")


def _write_config(path: Path, *, client: bool) -> None:
    write_new(path, (client_file if client else run_file)(path.name))
    if client:
        say(f"{path} is ready; name the data in it, then run: fl-dp client --config {path}")
    else:
        say(f"{path} is ready; to see what it would do: fl-dp check {path}")
