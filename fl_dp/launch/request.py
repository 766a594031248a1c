"""What a launch is asked for, once the command line was understood."""

import typing
from dataclasses import dataclass

from fl_dp.config.run import RunConfig

Engine = typing.Literal["ray", "flower"]


@dataclass(frozen=True)
class Request:
    """A validated run, and what the user should be told about how it came to be."""

    config: RunConfig
    notes: tuple[str, ...]
