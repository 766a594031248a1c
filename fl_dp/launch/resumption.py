"""How a run was launched, kept in its folder, so that it can be launched again."""

import dataclasses
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import tomli_w

from fl_dp.config.files import read_toml
from fl_dp.config.run import RunConfig
from fl_dp.durable_files import write_whole
from fl_dp.errors import ConfigError
from fl_dp.launch.request import Engine
from fl_dp.reporting.reports import OVER
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import ONE_RUN_LEDGER, RunFolder

if TYPE_CHECKING:
    from fl_dp.federation.server.state import RunState

_FLAGS = (ONE_RUN_LEDGER, "local-figures")  # named as the fields of `Launch`; written only if true


@dataclass(frozen=True)
class Launch:
    """What a launch needs to know besides the run config.

    engine: what simulates the clients; None if each is a process of its own. ledgers: the folder of the
    clients' ledger, absolute. ray_address: of a Ray cluster; empty if this machine alone simulates.
    one_run_ledger: whether the ledger was made for this run alone. local_figures: whether a simulation
    measures each client's model on its held-out records.
    """

    engine: Engine | None
    ledgers: Path
    ray_address: str
    one_run_ledger: bool = False
    local_figures: bool = False

    def write(self, folder: RunFolder) -> None:
        """Write launch.toml. A path of ledgers inside the run's folder is relative, because folders move."""
        inside = self.ledgers.is_relative_to(folder.path)
        ledgers = self.ledgers.relative_to(folder.path) if inside else self.ledgers
        table: dict[str, str | bool] = {
            "engine": self.engine or "",
            "ledgers": str(ledgers),
            "ray-address": self.ray_address,
        }
        table |= {key: True for key in _FLAGS if getattr(self, key.replace("-", "_"))}
        write_whole(folder.launch, lambda file: tomli_w.dump(table, file))

    def at(self, ray_address: str) -> Self:
        """The same launch on another cluster; ConfigError unless it is a simulation."""
        if self.engine is None:
            raise ConfigError(f"--ray-address {ray_address}: this run is no simulation; leave it out.")
        return dataclasses.replace(self, ray_address=ray_address)

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The launch of the run in `folder`; ConfigError if launch.toml is damaged."""
        table = read_toml(folder.launch)
        for key in ("engine", "ledgers", "ray-address"):
            if not isinstance(table.get(key), str):
                raise ConfigError(f"{folder.launch}: is damaged: {key} is not a string.")
        engine, ledgers, address = table["engine"], table["ledgers"], table["ray-address"]
        if engine not in ("", *typing.get_args(Engine)):
            raise ConfigError(f"{folder.launch}: engine = {engine!r} is unknown to this version of fl_dp.")
        flags = [table.get(key, False) for key in _FLAGS]
        for key, flag in zip(_FLAGS, flags, strict=True):
            if not isinstance(flag, bool):
                raise ConfigError(f"{folder.launch}: is damaged: {key} is neither true nor false.")
        return cls(engine or None, folder.path / ledgers, address, *flags)


def check_begun(folder: RunFolder) -> None:
    """Raise ConfigError unless the folder holds a run of run.sh."""
    if not folder.launch.exists():
        raise ConfigError(
            f"--resume {folder.shown}: holds no run of run.sh that was started; start a new one."
        )


def write_kit(folder: RunFolder, kit: Path) -> None:
    """Record the run's kit: a run that began with one needs one to be resumed."""
    write_whole(folder.served, lambda file: tomli_w.dump({"kit": str(kit.absolute())}, file))


def _kit_of(folder: RunFolder) -> str:
    """The kit with which the run was started; empty if there was none, or an older fl_dp started it."""
    if not folder.served.exists():
        return ""
    kit = read_toml(folder.served).get("kit")
    if not isinstance(kit, str):
        raise ConfigError(f"{folder.served}: is damaged: kit is not a string; write the kit's folder there.")
    return str(RunFolder(Path(kit)).shown)


def check_served(folder: RunFolder, kit: Path | None) -> None:
    """Raise ConfigError unless the folder holds a run of server.py, whose clients are elsewhere.

    Also if the run was begun with a kit and none is given now.
    """
    if not folder.config.exists():
        raise ConfigError(f"--resume {folder.shown}: holds no run; start a new one.")
    if folder.launch.exists():
        raise ConfigError(
            f"--resume {folder.shown}: is a run of run.sh; resume it with: fl-dp run --resume DIR."
        )
    if kit is None and _kit_of(folder):
        raise ConfigError(
            f"--resume {folder.shown}: the run was begun with a kit, without which its sites cannot join. "
            f"Resume it with: {go_on_with(folder)}"
        )


def check_unfinished(folder: RunFolder) -> None:
    """Raise ConfigError if the run is over. A failed or interrupted run is not."""
    summary = Run(folder).summary()
    if summary and summary.status in OVER:
        how = "has completed" if summary.status == "completed" else "has spent its clients' privacy budgets"
        raise ConfigError(f"--resume {folder.shown}: nothing to resume, as the run {how}.")


def go_on_with(folder: RunFolder) -> str:
    """The command that resumes the stopped run in the folder."""
    if folder.launch.exists():
        return f"fl-dp run --resume {folder.shown}"
    kit = _kit_of(folder)
    return f"fl-dp server --resume {folder.shown}" + (f" --kit {kit}" if kit else "")


def interrupted_words(folder: RunFolder, over: int, rounds: int, *, lasting: bool = True) -> str:
    """What was paid in an interrupted run, and how to go on. lasting: whether it can be resumed."""
    where = (
        f"fl-dp ledger show {folder.shown}" if folder.launch.exists() else "fl-dp ledger show, at each site"
    )
    on = f"to resume: {go_on_with(folder)}"
    if not lasting:
        on = (
            "the run cannot be resumed, because its data or task were in memory. To start again and count "
            f'what was paid, make the same call with ledger="{Launch.read(folder).ledgers}"'
        )
    return (
        f"stopped after {over} of {rounds} rounds; clients have paid for what they began\n"
        f"to see what was paid: {where}\n{on}"
    )


def kept_config(folder: RunFolder) -> RunConfig:
    """The run's config. Its `out` is where the folder is now, which may have been moved.

    ConfigError if another version of fl_dp has written the folder.
    """
    Run(folder).summary()
    return dataclasses.replace(RunConfig.from_toml(folder.config), out=str(folder.path))


def to_resume(folder: RunFolder) -> "tuple[RunConfig, RunState | None]":
    """The run's config and state; ConfigError if this fl_dp cannot resume from them."""
    from fl_dp.federation.server.run_record import kept_state  # late: Flower, for half a second

    state = kept_state(folder.path)  # first: its format says whether another version has written the config
    config = kept_config(folder)
    if state:
        state.check_same(config)
    return config, state
