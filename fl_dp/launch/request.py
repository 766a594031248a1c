"""A run as it was asked for, on the command line or from Python, validated."""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fl_dp.config.flat import Scalar
from fl_dp.config.run import RunConfig
from fl_dp.config.task import task_beside
from fl_dp.reporting.reports import NOT_PRIVATE

Engine = typing.Literal["ray", "flower"]

# A value that comes from the config file, not from the user, is lowered to the value it may not exceed.
_CAPS = (
    ("min-clients", "clients"),
    ("fit-clients", "clients"),
    ("physical-batch-size", "expected-batch-size"),
)

UNPROTECTED = (
    f'{NOT_PRIVATE}: privacy = "off" trains without protection; noise-multiplier, max-grad-norm, epsilon and '
    "delta are not used",
    f"{NOT_PRIVATE}: the ledgers will say so, and no epsilon holds for these data afterwards",
)


@dataclass(frozen=True)
class RunRequest:
    """A validated run config.

    notes: lines for the user, about values that were lowered and about privacy. places: where settings were
    given, by key, for errors: "run.toml, line 3".
    """

    config: RunConfig
    notes: tuple[str, ...]
    places: Mapping[str, str] = field(default_factory=dict)


def read_config(file: Path) -> RunConfig:
    """The run config in `file`; a task's file is looked for from there. ConfigError names the file."""
    config = RunConfig.from_toml(file)
    return _from(config, file.parent)


def _from(config: RunConfig, folder: Path) -> RunConfig:
    """With absolute paths of one's own code, which is looked for in `folder`."""
    return replace(
        config,
        task=task_beside(config.task, folder),
        model=task_beside(config.model, folder),
        strategy=task_beside(config.strategy, folder),
    )


def request_of(base: RunConfig, given: Mapping[str, Scalar]) -> RunRequest:
    """The run that `base` describes, changed by what the user has given; ConfigError names the culprit."""
    flat = base.to_flat()
    capped = _cap(flat, given)
    config = RunConfig.from_flat({**flat, **capped, **given})
    config = _from(config, Path.cwd())
    notes = [f"{key} = {value} (the config file says {flat[key]})" for key, value in capped.items()]
    if not config.private:
        notes += UNPROTECTED
    return RunRequest(config, tuple(notes))


def _cap(base: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    capped: dict[str, Scalar] = {}
    for key, limit in _CAPS:
        most, value = given.get(limit), base[key]
        if key in given or type(most) is not int or not isinstance(value, int):
            continue
        if 1 <= most < value:
            capped[key] = most
    return capped
