"""Models for a site's operator: from a file or a run, with the site's own parameters, evaluated here.

The results are for the operator's console and for nobody else. They are computed in the process that watches
over the client, never in one that answers a server.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fl_dp.config.client import ClientConfig
from fl_dp.errors import ConfigError, DataError
from fl_dp.federation.client.kept_states import own_model_file, read_own_model
from fl_dp.federation.devices import find_devices
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.federation.wire.arrays import state_arrays
from fl_dp.models.weights_file import load_weights
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.tasks.load import in_task_code, new_model, task_of
from fl_dp.tasks.records import records_of
from fl_dp.tasks.task import Task

Weights = Mapping[str, Any]


def read_weights(path: Path) -> Mapping[str, torch.Tensor]:
    """The weights of a run's folder, or in a weights file, at `path`; ConfigError if there are none."""
    choices = (
        [RunFolder(path).model(private=private) for private in (True, False)] if path.is_dir() else [path]
    )
    file = next((one for one in choices if one.is_file()), None)
    if file is None:
        raise ConfigError(f"{path}: no such file, or the folder of a run without a model.")
    return load_weights(file)


def with_newest(settings: ClientConfig, weights: Weights) -> tuple[dict[str, Any], str] | None:
    """The weights with the site's own parameters filled in, and words for that.

    They come from the newest run that has left some; None if there is none, or if they do not fit.
    """
    file = own_model_file(settings)
    if file is None:
        return None
    own = read_own_model(file)
    there = own.on(weights)
    words = f"with this site's own parameters, after round {own.server_round} of run {own.run}"
    return None if there is None else (there, words)


def model_with(task: Task, weights: Weights, name: str) -> nn.Module:
    """The task's model with these weights; ConfigError, naming them, if they belong to another model."""
    model = new_model(task)
    needed = state_arrays(model).keys()  # each tied parameter only by its first name
    missing, unknown = sorted(needed - weights.keys()), sorted(weights.keys() - model.state_dict().keys())
    try:
        if missing or unknown:
            raise RuntimeError(f"missing {missing[:3]}, unknown {unknown[:3]}")
        model.load_state_dict({key: torch.as_tensor(weights[key]) for key in needed}, strict=False)
    except RuntimeError as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"{name}: not the weights of model {task.settings.model}: {words}") from None
    return model


def measured(settings: ClientConfig, weights: Weights, name: str) -> str:
    """Evaluate the model on the site's own test rows; result in words. DataError without rows."""
    task = task_of(settings)
    data = records_of(task, "test")
    if data is None:
        raise DataError(
            "This site has no test rows: its data have none, or test_data() of its task returns none."
        )
    model = model_with(task, weights, name)
    with in_task_code(type(task), "its evaluation"):
        result = evaluate(model, data, task, find_devices(settings.device)[0])
    values = {"loss": result.loss, **result.metrics}
    words = ", ".join(f"{key} {'n/a' if v is None else format(v, '.4f')}" for key, v in values.items())
    return f"{name}, on {len(data)} test rows of this site: {words}"


def evaluate_file(settings: ClientConfig, path: Path) -> str:
    """Evaluate the model of a run, or a weights file, on the site's own test rows; result in words.

    Also evaluates it with the site's own parameters, if it has some that fit. ConfigError if there is no such
    file or it is of another model, DataError if there are no test rows.
    """
    weights = read_weights(path)
    own = with_newest(settings, weights)
    return "\n".join(measured(settings, *one) for one in ((weights, str(path)), own) if one is not None)
