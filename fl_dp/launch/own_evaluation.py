"""A site's own measurements, on its own test rows: for its operator's console, and for nobody else.

They are made by the process that watches over the client, never by one that answers a server.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, DataError, FlDpError
from fl_dp.federation.client.received import read_received, received_file
from fl_dp.reporting.run_folder import RunFolder

if TYPE_CHECKING:
    import torch

Say = Callable[[str], None]


def evaluate_file(settings: ClientConfig, path: Path) -> str:
    """The model of a run, or weights in a file as a run leaves them, on the site's own test rows: in words.

    ConfigError where there is no such file or where it is of another model, DataError without test rows.
    """
    return _measured(settings, _weights_of(path), str(path))


class OwnEvaluation:
    """Measures each global model that the client receives, once; DataError where there are no test rows."""

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        from fl_dp.tasks.load import task_of
        from fl_dp.tasks.records import records_of

        if records_of(task_of(settings), "test") is None:
            raise _no_rows()
        self._settings, self._say = settings, say
        self._file = received_file(settings)
        self._seen = self._changed()

    def look(self) -> None:
        """Measure what was received since the last look; what goes wrong is said, and ends nothing."""
        changed = self._changed()
        if changed in (None, self._seen):
            return
        self._seen = changed
        try:
            received = read_received(self._file)
            name = f"run {received.run}, the model that round {received.server_round} starts from"
            self._say(_measured(self._settings, received.weights, name))
        except FlDpError as error:
            self._say(f"the model that was received could not be measured: {error}")

    def _changed(self) -> int | None:
        return self._file.stat().st_mtime_ns if self._file.exists() else None


def _measured(settings: ClientConfig, weights: Mapping[str, Any], name: str) -> str:
    import torch

    from fl_dp.federation.devices import find_device
    from fl_dp.federation.server.evaluation import evaluate
    from fl_dp.tasks.load import in_task_code, new_model, task_of
    from fl_dp.tasks.records import records_of

    task = task_of(settings)
    data = records_of(task, "test")
    if data is None:
        raise _no_rows()
    model = new_model(task)
    try:
        model.load_state_dict({key: torch.as_tensor(value) for key, value in weights.items()})
    except RuntimeError as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"{name}: not weights of model {settings.model}: {words}") from None
    with in_task_code(type(task), "its evaluation"):
        result = evaluate(model, data, task, find_device(settings.device))
    values = {"loss": result.loss, **result.metrics}
    words = ", ".join(f"{key} {'n/a' if v is None else format(v, '.4f')}" for key, v in values.items())
    return f"{name}, on {len(data)} test rows of this site: {words}"


def _weights_of(path: Path) -> "Mapping[str, torch.Tensor]":
    import torch

    choices = (
        [RunFolder(path).model(private=private) for private in (True, False)] if path.is_dir() else [path]
    )
    file = next((one for one in choices if one.is_file()), None)
    if file is None:
        raise ConfigError(f"--evaluate {path}: no such file, or a run's folder without a model.")
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds, for a file that is something else
        raise ConfigError(f"--evaluate {file}: not a file of weights ({type(error).__name__}).") from error
    if not isinstance(found, dict):
        raise ConfigError(f"--evaluate {file}: expected weights by name, not {type(found).__name__}.")
    return found


def _no_rows() -> DataError:
    return DataError("This site has no test rows: its data name none, or its task's test_data() gives none.")
