"""Where a launch keeps its files, and the claim to a folder that no other run uses."""

import time
from dataclasses import dataclass
from pathlib import Path

from fl_dp.errors import ConfigError
from fl_dp.reporting.run_directory import ROUNDS, SUMMARY

SERVER_LOG = "server"


@dataclass(frozen=True)
class Layout:
    """The files of one run below its folder `out`, an absolute path."""

    out: Path

    @property
    def shown(self) -> Path:
        """`out` as a person would type it here."""
        return self.out.relative_to(Path.cwd()) if self.out.is_relative_to(Path.cwd()) else self.out

    @property
    def config(self) -> Path:
        return self.out / "config.toml"

    @property
    def launch(self) -> Path:
        return self.out / "launch.toml"

    @property
    def lock(self) -> Path:
        return self.out / ".lock"

    @property
    def rounds(self) -> Path:
        return self.out / ROUNDS

    @property
    def summary(self) -> Path:
        return self.out / SUMMARY

    @property
    def clients(self) -> Path:
        return self.out / "clients"

    @property
    def ledgers(self) -> Path:
        return self.out / "ledgers"

    @property
    def flower_home(self) -> Path:
        return self.out / "flower"

    @property
    def commands(self) -> Path:
        return self.out / "flower" / "bin"

    def log(self, name: str) -> Path:
        return self.out / "logs" / f"{name}.log"


def claim_folder(out: Path | None, runs: Path = Path("runs")) -> Layout:
    """Make the folder `out`, or, if None, a new one named by the time below `runs`.

    ConfigError when `out` already holds a run: its files would be mixed with this run's.
    """
    layout = Layout((_new_folder(runs) if out is None else out).absolute())
    try:
        layout.out.mkdir(parents=True, exist_ok=True)
        layout.config.open("x").close()  # only one of two launches at once gets this far
    except FileExistsError:
        raise ConfigError(f"--out {out}: already holds a run, or is a file; name another folder.") from None
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from None
    layout.log("x").parent.mkdir(exist_ok=True)
    return layout


def _new_folder(runs: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        folder = runs / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
