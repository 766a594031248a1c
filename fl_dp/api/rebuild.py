"""Rebuilds a run's model from its weights, with code that is built in or that the caller provides."""

import warnings
from collections.abc import Mapping

from torch import Tensor, nn

from fl_dp.choices import MODELS
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings, task_file
from fl_dp.errors import ConfigError
from fl_dp.models.names import absolute_model, is_own_code
from fl_dp.models.weights_file import load_weights
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.tasks.description import ModelDescription
from fl_dp.tasks.identity import code_identity
from fl_dp.tasks.load import in_task_code, new_model, task_class
from fl_dp.tasks.task import Task
from fl_dp.weights_digest import weights_digest


def rebuilt(
    folder: RunFolder,
    settings: RunConfig,
    description: ModelDescription,
    task: type[Task] | str | None,
    model: str | None,
) -> tuple[Task, nn.Module]:
    """The task and the trained model, in evaluation mode, on the CPU.

    task, model: code that the caller trusts; None: only what is built in. Raises ConfigError if the run needs
    code that was not provided, or the weights are missing, damaged, or another model's.
    """
    made = made_task(settings, description, task, model)
    network = new_model(made)
    weights = read_weights(folder, private=settings.private)
    try:
        network.load_state_dict(dict(weights))
    except RuntimeError as error:
        words = " ".join(str(error).split())
        raise ConfigError(f"{folder.path}: its weights belong to another model: {words}") from None
    _check_ties(network, weights, folder)
    return made, network.eval()


def _check_ties(network: nn.Module, weights: Mapping[str, Tensor], folder: RunFolder) -> None:
    """Raise ConfigError if two names of one tensor have two values: the later would overwrite the former.

    Digests count a tied tensor once, so no signature covers the value under its second name.
    """
    loaded = network.state_dict()
    for name, one in weights.items():
        values = {name: loaded[name]}, {name: one.to(loaded[name].dtype)}
        if len({weights_digest(each) for each in values}) > 1:
            raise ConfigError(
                f"{folder.path}: its weights have two values for one tensor of the model, {name} and another "
                "name of it; the file was changed."
            )


def made_task(
    settings: RunConfig, description: ModelDescription, task: type[Task] | str | None, model: str | None
) -> Task:
    """The run's task, from the caller's code; it knows the form of the data."""
    if settings.task and task is None:
        raise ConfigError(
            f"the run has its own task, {description.task}; pass it (task=, or --task): code that a run's "
            "folder names is never run."
        )
    kind = Task if task is None else task_class(task) if isinstance(task, str) else task
    own = {"task": task if isinstance(task, str) else ""}
    if kind.model is Task.model:
        own["model"] = _model_name(settings.model, model)
    with in_task_code(kind, "it"):
        made = kind(TaskSettings(**{**settings.of_task(), **own}))
    if description.form is not None:
        made.form, made.class_names = description.form, description.classes
    if code_identity(made) != description.identity:
        warnings.warn(
            f"task {kind.__name__}: its code differs from the run's; the model may compute something else.",
            stacklevel=4,
        )
    return made


def _model_name(name: str, trusted: str | None) -> str:
    """The model to build: the caller's own name for it, as its code may lie elsewhere than in the run.

    ConfigError for one that is not built in, unless the caller has named it, and for another than the run's.
    """
    if trusted is not None:
        own = absolute_model(trusted)
        if _without_path(own) == _without_path(name):
            return own
        raise ConfigError(f"model = {trusted!r}: the run's model is {name!r}.")
    if name.partition(":")[0] not in MODELS.built_in():
        raise ConfigError(
            f"model = {name!r}: is not built in; if you trust its code, name it (model=, or --model): code "
            "that a run's folder names is never run."
        )
    return name


def _without_path(model: str) -> str:
    return task_file(model)[1] if is_own_code(model) else model.partition(":")[0]


def read_weights(folder: RunFolder, *, private: bool) -> dict[str, Tensor]:
    """The state dict of the run's model, read as data and never as code; ConfigError if there is none."""
    file = folder.model(private=private)
    if not file.exists():
        raise ConfigError(f"{file}: no such file; the run wrote no model.")
    return load_weights(file)
