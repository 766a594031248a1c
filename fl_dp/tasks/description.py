"""What people need to know about a model besides its weights: task, input and output."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from fl_dp.config.files import read_json
from fl_dp.data.source import schema_text
from fl_dp.errors import ConfigError, DataError
from fl_dp.form import Form
from fl_dp.schema import UnfitError, read
from fl_dp.tasks.identity import code_identity
from fl_dp.tasks.task import Task


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """model.json of a run. None of it is executed, and none of it comes from a record.

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
        try:
            found = read(cls, read_json(path))
        except (UnfitError, DataError) as error:
            raise ConfigError(f"{path}: is damaged: {error}") from None
        if found.form and min(*found.form.input_shape, found.form.outputs, found.form.vocabulary) < 0:
            raise ConfigError(f"{path}: is damaged: sizes below 0.")
        return found


def describe(task: Task) -> ModelDescription:
    """The description of the task's model. form: None if no data were read."""
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
