"""What is learned, on which records. Server and clients say it in the same keys, each on its own disk."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from fl_dp.choices import LOSSES
from fl_dp.config.data import DataSettings


@dataclass(frozen=True, kw_only=True)
class TaskSettings(DataSettings):
    """README.md explains every key. task: a file or an importable name; empty: all of it is built in."""

    task: str = ""
    model: str = "linear"
    loss: str = "cross-entropy"

    def __post_init__(self) -> None:
        super().__post_init__()
        LOSSES.check_built_in(self.loss, "a loss that all sites have")

    def of_task(self) -> dict[str, Any]:
        """These settings alone, by field, for other settings that are to mean the same task and records."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(TaskSettings)}
