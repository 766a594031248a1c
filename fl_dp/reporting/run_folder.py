"""The paths of one run's files, below a folder that no other run uses."""

import time
from dataclasses import dataclass
from pathlib import Path

from fl_dp.durable_files import private_folder
from fl_dp.errors import ConfigError

SERVER_LOG, SECURITY_LOG = "server", "security"
ONE_RUN_LEDGER = "one-run-ledger"  # in launch.toml: whether the ledger was made for this run alone


class _Inside:
    """A path inside a run's folder, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", owner: type) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run's files. path: the folder, absolute."""

    path: Path

    @property
    def shown(self) -> Path:
        """`path` as a person would type it in this working directory."""
        return self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path

    config = _Inside("config.toml")
    resolved = _Inside("resolved.toml")  # the config with "auto" replaced
    launch = _Inside("launch.toml")
    served = _Inside("served.toml")  # the kit that a run of `fl-dp server --kit` was begun with
    lock = _Inside(".lock")  # held by the launcher while the run goes on
    server_lock = _Inside(".server.lock")  # held by the federation's server process
    tracked = _Inside("tracked")  # output of the trackers, a folder for each
    rounds = _Inside("rounds.jsonl")
    summary = _Inside("summary.json")
    description = _Inside("model.json")  # what the model is, `tasks.description`
    statements = _Inside("statements.json")  # what sites stated of their ledgers, after the summary
    local = _Inside("local.json")  # of a simulation: each client's model on its own records, not noised
    report = _Inside("report.html")  # the page for people
    approval = _Inside("approval.toml")  # what people add to the page
    clients = _Inside("clients")
    ledgers = _Inside("ledgers")
    flower_home = _Inside("flower")
    logs = _Inside("logs")

    def model(self, *, private: bool) -> Path:
        """The final model. Its name says so if it was trained without privacy."""
        return self.path / ("model.pt" if private else "model-NOT-PRIVATE.pt")

    def last_model(self, *, private: bool) -> Path:
        """The model of the last round, if `model` is the best one."""
        return self.path / ("last.pt" if private else "last-NOT-PRIVATE.pt")

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"


def check_unclaimed(out: Path) -> None:
    """Raise ConfigError if `claim_folder` would refuse the folder; creates nothing."""
    if out.is_file() or RunFolder(out).config.exists():
        raise _claimed(out)


def _claimed(out: Path | None) -> ConfigError:
    return ConfigError(f"--out {out}: already holds a run, or is a file; name another folder.")


def claim_folder(out: Path | None, runs: Path = Path("runs")) -> RunFolder:
    """Make the folder `out`, or if it is None a new one below `runs`, named by the time.

    ConfigError if `out` already holds a run: the files of both would mix.
    """
    folder = RunFolder((_new_folder(runs) if out is None else out).absolute())
    try:
        private_folder(folder.path)
        folder.config.open("x").close()  # only one of two simultaneous launches can create the file
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
