"""What is learned, on which records. Server and clients use the same keys, each on its own disk."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_dp.choices import AUGMENTATIONS, LOSSES, MODELS
from fl_dp.config.data import DataSettings
from fl_dp.config.setting import setting
from fl_dp.errors import ConfigError

MOST_WEIGHT_OF_CLASS = 1e3
MOST_VIEWS = 1024
MOST_RANK = 2**16
_VIEWS = "views:"
_WEIGHTS = f"a number above 0, of at most {MOST_WEIGHT_OF_CLASS:g}, for each class, such as 1,5"

_FILE = ".py"


def task_file(name: str) -> tuple[Path | None, str]:
    """The file and class in a task's name: FILE.py, FILE.py:NAME or package.module:NAME.

    None without a file, an empty text without a class. The path may also contain a colon.
    """
    before, _, after = name.rpartition(":")
    if name.endswith(_FILE):
        return Path(name), ""
    return (Path(before), after) if before.endswith(_FILE) else (None, after if before else "")


def task_beside(name: str, folder: Path) -> str:
    """`name`; if it names a file, with an absolute path, relative to `folder`."""
    file, kind = task_file(name)
    if file is None:
        return name
    return f"{folder.absolute() / file.expanduser()}{':' if kind else ''}{kind}"


_TASK = "Task and model"


@dataclass(frozen=True, kw_only=True)
class TaskSettings(DataSettings):
    """Each setting's meaning stands beside it; `fl-dp keys` shows it."""

    task: str = setting(
        "",
        _TASK,
        "your own task: FILE.py, FILE.py:NAME or package.module:NAME; what it defines replaces the built-in "
        "part",
        page="tasks.md",
        common=True,
        path=True,
    )
    model: str = setting(
        "linear",
        _TASK,
        "a name, torchvision:NAME, timm:NAME, hf:PATH, or your own code",
        choices=MODELS,
        checked=False,
        also="FILE.py:NAME or package.module:NAME",
        page="models.md",
        common=True,
        path=True,
    )
    loss: str = setting(
        "cross-entropy",
        _TASK,
        "loss that training minimises: for classes or next tokens, several 0/1 labels (bce), or "
        "numbers (mse)",
        choices=LOSSES,
        own="a loss that all sites have",
        page="training.md",
        common=True,
    )
    start: str = setting(
        "",
        _TASK,
        "file with the weights of the first round, which must be public; empty: random weights",
        page="models.md#start-weights-and-what-is-trained",
        path=True,
    )
    trainable: str = setting(
        "",
        _TASK,
        'patterns of the parameters to train, such as "head.*,!head.bias"; empty: all',
        page="models.md#start-weights-and-what-is-trained",
    )
    lora: str = setting(
        "",
        _TASK,
        'LoRA adapters: rank and patterns of their layers, as in "8:*.qkv"; empty: none',
        page="models.md#start-weights-and-what-is-trained",
    )
    class_weights: str = setting(
        "",
        _TASK,
        'public weight of each class, such as "1,5", that multiplies its losses',
        page="training.md#weights",
    )
    personal: str = setting(
        "",
        _TASK,
        "patterns of trained parameters that each site keeps for itself and never sends",
        page="strategies.md#at-the-clients",
    )

    augmentation: str = setting(
        "",
        _TASK,
        "random changes of images in every step: crop:PIXELS, flip, or both with a comma; with views:N a "
        "record's loss is the mean over N changed copies; empty: none",
        choices=AUGMENTATIONS,
        checked=False,
        own="a change that all sites have",
        page="training.md#augmentation",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_views()
        rank, targets = self.adapters
        self._require(
            "lora",
            not self.lora or (1 <= rank <= MOST_RANK and bool(targets)),
            f'"RANK:PATTERNS", a rank from 1 to {MOST_RANK} and patterns of layer names, as in "8:*.qkv"',
        )
        for weight in self.weight_of_class:
            self._require("class-weights", 0 < weight <= MOST_WEIGHT_OF_CLASS, _WEIGHTS)

    def _check_views(self) -> None:
        for word in filter(None, self.changes.split(", ")):
            AUGMENTATIONS.check_built_in(word.partition(":")[0], "a change that all sites have")
        self._require(
            "augmentation",
            not (self.features and self.changes),
            f"no value with features = {self.features!r}, which are computed once and not from "
            "augmented views",
        )
        self._require(
            "augmentation",
            self.views == 1 or bool(self.changes),
            "a change beside views:N, such as crop:4, as all views would be the same",
        )

    @property
    def changes(self) -> str:
        """The random changes in `augmentation`, without the number of views."""
        return ", ".join(word for word in self._augmented if not word.startswith(_VIEWS))

    @property
    def views(self) -> int:
        """The number of augmented views of each record in a step; 1 unless `augmentation` says more."""
        numbers = [word.removeprefix(_VIEWS) for word in self._augmented if word.startswith(_VIEWS)]
        self._require(
            "augmentation",
            len(numbers) <= 1 and all(one.isdecimal() and 1 <= int(one) <= MOST_VIEWS for one in numbers),
            f"views:N once, with an integer N from 1 to {MOST_VIEWS}",
        )
        return int(numbers[0]) if numbers else 1

    @property
    def _augmented(self) -> list[str]:
        return [word.strip() for word in self.augmentation.split(",") if word.strip()]

    @property
    def seen(self) -> str:
        """What training sees of a record, in words that sites compare; empty: the record as it is."""
        return f"{self.views} views by {self.changes}" if self.changes else ""

    @property
    def weight_of_class(self) -> tuple[float, ...]:
        """`class_weights` as numbers; ConfigError for anything else."""
        try:
            return tuple(float(word) for word in self.class_weights.split(",") if self.class_weights)
        except ValueError:
            raise ConfigError(f"class-weights = {self.class_weights!r}: expected {_WEIGHTS}.") from None

    @property
    def adapters(self) -> tuple[int, str]:
        """Rank of the LoRA adapters, and patterns of their layers; rank 0: none, or no number."""
        rank, _, targets = self.lora.partition(":")
        return int(rank) if rank.isascii() and rank.isdigit() else 0, targets

    @property
    def trained(self) -> str:
        """Which parameters are trained, in words that sites compare; empty: all of the model's."""
        parts = [self.trainable] if self.trainable else []
        parts += ["lora {} of {}".format(*self.adapters)] if self.lora else []
        return "; ".join(parts)

    def of_task(self) -> dict[str, Any]:
        """The settings of task and data, by field, for another config with the same task and data."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(TaskSettings)}
