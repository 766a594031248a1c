"""What is learned, on which records. Server and clients say it in the same keys, each on its own disk."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.choices import LOSSES
from fl_dp.config.data import DataSettings

_FILE = ".py"


def task_file(name: str) -> tuple[Path | None, str]:
    """The file and the class that a task's name means: FILE.py, FILE.py:NAME or package.module:NAME.

    Without a file, None; without a class, an empty text. A colon may stand in the path, too.
    """
    before, _, after = name.rpartition(":")
    if name.endswith(_FILE):
        return Path(name), ""
    return (Path(before), after) if before.endswith(_FILE) else (None, after if before else "")


def task_beside(name: str, folder: Path) -> str:
    """`name`, where it names a file, with an absolute path, from `folder` if it was relative."""
    file, kind = task_file(name)
    if file is None:
        return name
    return f"{folder.absolute() / file.expanduser()}{':' if kind else ''}{kind}"


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
