"""A validated run request, from the command line or from Python."""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fl_dp.config.dependent import dependent_values
from fl_dp.config.flat import AUTO, Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import TURNS
from fl_dp.config.task import task_beside
from fl_dp.reporting.reports import NOT_PRIVATE

Engine = typing.Literal["ray"]

UNPROTECTED = (
    f'{NOT_PRIVATE}: privacy = "off" trains without protection and does not use noise-multiplier, '
    "max-grad-norm, epsilon and delta",
    f"{NOT_PRIVATE}: the ledgers will record this. In a lasting ledger, no epsilon holds for these data "
    "afterwards; if the ledger is for this run alone, no other run learns of it",
)


@dataclass(frozen=True)
class RunRequest:
    """A validated run config.

    notes: lines for the user, about lowered values and about privacy. places: where settings were given, by
    key, for errors: "run.toml, line 3".
    """

    config: RunConfig
    notes: tuple[str, ...]
    places: Mapping[str, str] = field(default_factory=dict)

    def simulated(self, engine: Engine | None) -> "RunRequest":
        """With what "auto" means if `engine` simulates the clients; unchanged if it is None."""
        if engine is None or self.config.sampling != AUTO:
            return self
        return replace(self, config=replace(self.config, sampling=TURNS))


def read_config(file: Path) -> RunConfig:
    """The run config in `file`; a task's file is looked for relative to it. ConfigError names the file."""
    config = RunConfig.from_toml(file)
    return _from(config, file.parent)


def _from(config: RunConfig, folder: Path) -> RunConfig:
    """Make paths of the user's own code absolute, relative to `folder`."""
    return replace(
        config,
        task=task_beside(config.task, folder),
        model=task_beside(config.model, folder),
        strategy=task_beside(config.strategy, folder),
    )


def request_of(base: RunConfig, given: Mapping[str, Scalar]) -> RunRequest:
    """The run that `base` describes, changed by the user's settings; ConfigError names the one at fault."""
    flat = base.to_flat()
    changed = dependent_values(flat, given)
    config = RunConfig.from_flat({**flat, **changed, **given})
    config = _from(config, Path.cwd())
    notes = [
        f"{key} = {value}, as clients is (the config or default has {flat[key]})"
        for key, value in changed.items()
    ]
    if not config.private:
        notes += UNPROTECTED
    return RunRequest(config, tuple(notes))
