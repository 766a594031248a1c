"""What people need to know of a model besides its weights: the task, its input, and its output."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from fl_dp.config.files import read_json
from fl_dp.data.source import schema_text
from fl_dp.errors import ConfigError, DataError
from fl_dp.form import Form
from fl_dp.tasks.identity import code_identity
from fl_dp.tasks.task import Task

_TEXTS = ("task", "identity", "model", "loss", "data", "schema", "date", "version")


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """model.json of a run. Nothing in it is executed; nothing in it comes from a record.

    task: the class's name, and identity its digest; empty for a built-in task. model, loss, data: names of
    built-in parts; empty if the task has its own. form: of the data; None if the server saw none. classes:
    names of the labels or columns; empty if they have none. schema: the text of the data's schema file, which
    is public; empty if there is none. date: when it was written, UTC.
    version: of fl_dp.
    """

    task: str
    identity: str
    model: str
    loss: str
    data: str
    form: Form | None
    classes: tuple[str, ...]
    schema: str
    date: str
    version: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `path`; ConfigError if it is missing or damaged."""
        if not path.exists():
            raise ConfigError(f"{path}: no such file; a run writes it at its end, with its model.")
        found = read_json(path)
        try:
            form = found["form"]
            return cls(
                **{key: _text(found[key]) for key in _TEXTS},
                form=None if form is None else _form(form),
                classes=tuple(_text(name) for name in found["classes"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, DataError) as error:
            raise ConfigError(f"{path}: is damaged ({type(error).__name__}).") from None


def describe(task: Task) -> ModelDescription:
    """The description of the task's model, as far as its data were read."""
    settings, kind = task.settings, type(task)
    own_data = kind.train_data is not Task.train_data
    return ModelDescription(
        task="" if task.built_in else type(task).__name__,
        identity=code_identity(task),
        model=settings.model if kind.model is Task.model else "",
        loss=settings.loss if kind.losses is Task.losses else "",
        data="" if own_data else settings.data.partition(":")[0],
        form=task.known_form,
        classes=task.class_names,
        schema="" if own_data else schema_text(settings),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("fl-dp"),
    )


def _form(found: Mapping[str, Any]) -> Form:
    """A form from JSON; TypeError or ValueError for anything else."""
    shape, targets = tuple(found["input_shape"]), found["targets"]
    numbers = (*shape, found["outputs"], found["vocabulary"])
    if not all(type(one) is int and one >= 0 for one in numbers):
        raise TypeError("sizes")
    if targets not in ("class", "numbers", "tokens"):
        raise ValueError("targets")
    return Form(shape, found["outputs"], targets, found["vocabulary"])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text")
    return value
