"""A run as it was asked for on the command line, validated."""

import typing
from dataclasses import dataclass

from fl_dp.config.run import RunConfig

Engine = typing.Literal["ray", "flower"]


@dataclass(frozen=True)
class RunRequest:
    """A validated run config. notes: lines for the user, about values that were lowered and about privacy."""

    config: RunConfig
    notes: tuple[str, ...]
