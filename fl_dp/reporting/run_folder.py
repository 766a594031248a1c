"""Where the files of one run lie, below a folder that no other run uses."""

import time
from dataclasses import dataclass
from pathlib import Path

from fl_dp.durable_files import private_folder
from fl_dp.errors import ConfigError

SERVER_LOG, SECURITY_LOG = "server", "security"
ONE_RUN_LEDGER = "one-run-ledger"  # in launch.toml: whether the ledger was made for this run alone


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run's files. path: the folder, absolute."""

    path: Path

    @property
    def shown(self) -> Path:
        """`path` as a person would type it here."""
        return self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def resolved(self) -> Path:
        """The config again, with what "auto" became."""
        return self.path / "resolved.toml"

    @property
    def launch(self) -> Path:
        return self.path / "launch.toml"

    @property
    def served(self) -> Path:
        """Which kit it was begun with, for a run of `fl-dp server --kit`."""
        return self.path / "served.toml"

    @property
    def lock(self) -> Path:
        """Held by whoever has launched the run, for as long as that goes on."""
        return self.path / ".lock"

    @property
    def server_lock(self) -> Path:
        """Held by the process that the federation's server runs in."""
        return self.path / ".server.lock"

    @property
    def progress(self) -> Path:
        """What the run does now; it is there only while the run goes on."""
        return self.path / "progress.json"

    @property
    def metrics(self) -> Path:
        """A Unix socket, while a server with --metrics goes on."""
        return self.path / "metrics.sock"

    @property
    def tracked(self) -> Path:
        """What trackers write, a folder for each."""
        return self.path / "tracked"

    @property
    def rounds(self) -> Path:
        return self.path / "rounds.jsonl"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    def model(self, *, private: bool) -> Path:
        """The final model. The name of one that was trained without privacy says so."""
        return self.path / ("model.pt" if private else "model-NOT-PRIVATE.pt")

    def last_model(self, *, private: bool) -> Path:
        """The model of the last round, where `model` is the best one's."""
        return self.path / ("last.pt" if private else "last-NOT-PRIVATE.pt")

    @property
    def description(self) -> Path:
        """What the model is of, `tasks.description`."""
        return self.path / "model.json"

    @property
    def statements(self) -> Path:
        """What the sites have said of their ledgers, after the summary was written."""
        return self.path / "statements.json"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.path / "report.html"

    @property
    def clients(self) -> Path:
        return self.path / "clients"

    @property
    def ledgers(self) -> Path:
        return self.path / "ledgers"

    @property
    def flower_home(self) -> Path:
        return self.path / "flower"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"


def check_unclaimed(out: Path) -> None:
    """ConfigError where `claim_folder` would find a run or a file in the way; nothing is made."""
    if out.is_file() or RunFolder(out).config.exists():
        raise _claimed(out)


def _claimed(out: Path | None) -> ConfigError:
    return ConfigError(f"--out {out}: already holds a run, or is a file; name another folder.")


def claim_folder(out: Path | None, runs: Path = Path("runs")) -> RunFolder:
    """Make the folder `out`, or, if None, a new one named by the time below `runs`.

    ConfigError when `out` already holds a run: its files would be mixed with this run's.
    """
    folder = RunFolder((_new_folder(runs) if out is None else out).absolute())
    try:
        private_folder(folder.path)
        folder.config.open("x").close()  # of two launches at once only one creates the file
    except FileExistsError:
        raise _claimed(out) from None
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from None
    for private in (folder.logs, folder.clients):  # logs may quote records
        private_folder(private)
    return folder


def _new_folder(runs: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        folder = runs / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return folder
