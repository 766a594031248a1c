"""What is learned, on which records. Server and clients say it in the same keys, each on its own disk."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.choices import LOSSES
from fl_dp.config.data import DataSettings
from fl_dp.config.flat import require
from fl_dp.config.ranges import Side
from fl_dp.errors import ConfigError

MOST_WEIGHT_OF_CLASS = 1e3
_WEIGHTS = f"a number above 0, of at most {MOST_WEIGHT_OF_CLASS:g}, for each class, such as 1,5"

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
    """README.md explains every key. task: a file or an importable name; empty: all of it is built in.

    start: a file of the server's with the weights of the first round, public by declaration; empty: random
    ones. trainable: patterns of parameters' names, "head.*,!head.bias"; all others are frozen; empty: all are
    trained, or with LoRA none but its own. lora: its rank, 0 for none. lora_targets: patterns of layers'
    names.
    class_weights: "1,5", a public number for each class, which the losses of its examples are multiplied
    with; empty: all count alike. personal: patterns of the trained parameters that are each site's own, and
    never leave it.
    """

    task: str = ""
    model: str = "linear"
    loss: str = "cross-entropy"
    start: str = ""
    trainable: str = ""
    lora: Side = 0
    lora_targets: str = ""
    class_weights: str = ""
    personal: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.lora) != bool(self.lora_targets):
            missing = "lora-targets" if self.lora else "lora"
            raise ConfigError(
                f"{missing} is missing: lora = RANK and lora-targets = PATTERNS of layers' names, such as "
                '"*.qkv", go together.'
            )
        LOSSES.check_built_in(self.loss, "a loss that all sites have")
        for weight in self.weight_of_class:
            require(0 < weight <= MOST_WEIGHT_OF_CLASS, "class-weights", self.class_weights, _WEIGHTS)

    @property
    def weight_of_class(self) -> tuple[float, ...]:
        """`class_weights` as numbers; ConfigError where it holds something else."""
        try:
            return tuple(float(word) for word in self.class_weights.split(",") if self.class_weights)
        except ValueError:
            raise ConfigError(f"class-weights = {self.class_weights!r}: expected {_WEIGHTS}.") from None

    @property
    def trained(self) -> str:
        """Which parameters are trained, in words that sites compare; empty: all that the model has."""
        parts = [self.trainable] if self.trainable else []
        parts += [f"lora {self.lora} of {self.lora_targets}"] if self.lora else []
        return "; ".join(parts)

    def of_task(self) -> dict[str, Any]:
        """These settings alone, by field, for other settings that are to mean the same task and records."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(TaskSettings)}
