"""A site's own measurements, on its own test rows: for its operator's console, and for nobody else.

They are made by the process that watches over the client, never by one that answers a server.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, DataError, FlDpError
from fl_dp.federation.client.own_states import OwnModel, own_model_file, read_own_model, written_at
from fl_dp.federation.client.received import read_received, received_file
from fl_dp.reporting.run_folder import RunFolder

if TYPE_CHECKING:
    import torch

Say = Callable[[str], None]


def evaluate_file(settings: ClientConfig, path: Path) -> str:
    """The model of a run, or weights in a file as a run leaves them, on the site's own test rows: in words.

    Also with the parameters that are the site's own, where it has some that fit. ConfigError where there is
    no such file or where it is of another model, DataError without test rows.
    """
    weights = _weights_of(path)
    lines = [_measured(settings, weights, str(path))]
    file = own_model_file(settings)
    if file is not None:
        lines += _with_own(settings, weights, read_own_model(file))
    return "\n".join(lines)


class OwnEvaluation:
    """Measures each global model that the client receives, once, and each of its own, if it has one.

    DataError where there are no test rows.
    """

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        from fl_dp.tasks.load import task_of
        from fl_dp.tasks.records import records_of

        if records_of(task_of(settings), "test") is None:
            raise _no_rows()
        self._settings, self._say = settings, say
        self._received = received_file(settings)
        self._seen = self._states()

    def look(self) -> None:
        """Measure what has come since the last look; what goes wrong is said, and ends nothing."""
        before, self._seen = self._seen, self._states()
        try:
            if self._seen[0] not in (0, before[0]):
                self._global()
            if self._seen[1] not in (0, before[1]):
                self._own()
        except FlDpError as error:
            self._say(f"the model that was received could not be measured: {error}")

    def _global(self) -> None:
        received = read_received(self._received)
        name = f"run {received.run}, the model that round {received.server_round} starts from"
        self._say(_measured(self._settings, received.weights, name))

    def _own(self) -> None:
        file = own_model_file(self._settings)
        if file is not None:
            for line in _with_own(
                self._settings, read_received(self._received).weights, read_own_model(file)
            ):
                self._say(line)

    def _states(self) -> tuple[int, int]:
        """When the last model was received, and when that of the site's own was written; 0: never."""
        own = own_model_file(self._settings)
        return written_at(self._received), written_at(own) if own else 0


def _with_own(settings: ClientConfig, weights: Mapping[str, Any], own: OwnModel) -> list[str]:
    """A line about the weights with the site's own parameters in them; none where these are of others."""
    there = own.on(weights)
    name = f"with the parameters of this site's own, after round {own.server_round} of run {own.run}"
    return [] if there is None else [_measured(settings, there, name)]


def _measured(settings: ClientConfig, weights: Mapping[str, Any], name: str) -> str:
    import torch

    from fl_dp.federation.devices import find_device
    from fl_dp.federation.server.evaluation import evaluate
    from fl_dp.federation.wire.arrays import state_arrays
    from fl_dp.tasks.load import in_task_code, new_model, task_of
    from fl_dp.tasks.records import records_of

    task = task_of(settings)
    data = records_of(task, "test")
    if data is None:
        raise _no_rows()
    model = new_model(task)
    needed = state_arrays(
        model
    ).keys()  # a tied parameter goes by its first name; its other ones are left out
    missing, unknown = sorted(needed - weights.keys()), sorted(weights.keys() - model.state_dict().keys())
    try:
        if missing or unknown:
            raise RuntimeError(f"missing {missing[:3]}, unknown {unknown[:3]}")
        model.load_state_dict({key: torch.as_tensor(weights[key]) for key in needed}, strict=False)
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
