"""`fl_dp.validate`: checks a task, or a model and some data, against everything that training refuses."""

from typing import Any

import torch
from torch import nn

from fl_dp.config.data import CLIENT
from fl_dp.config.flat import AUTO
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.source import absolute_name
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError, FlDpError
from fl_dp.federation.devices import find_device
from fl_dp.federation.server.evaluation import try_own_metrics
from fl_dp.form import names_of
from fl_dp.launch.first_checks import clients_there
from fl_dp.tasks.load import task_of
from fl_dp.tasks.records import SERVER, forget, of_client, records_of
from fl_dp.tasks.task import Task
from fl_dp.tasks.validation import Finding, Validation, validate_task
from fl_dp.training.local_algorithm import check_algorithm, personal_names
from fl_dp.training.optimizers import check_optimizer
from fl_dp.training.trainer import trainable


def validate(
    task_or_model: type[Task] | Task | nn.Module | TaskSettings | str,
    data: Any = None,
    *,
    config: RunConfig | None = None,
    test: bool = True,
) -> Validation:
    """Report everything that training will refuse; trains nothing, uses no ledger.

    If each client has its own file, one client's is read, and the server's if it exists.

    Args:
        task_or_model: A task, its class, its name as in settings ("my_task.py"), settings, or a model.
        data: For a model, a `TensorData`, or inputs and targets as in a task's `train_data`.
        config: The run; its loss is used for a model.
        test: Also read the test data and try the metrics, which the server computes.

    Returns:
        The findings, `ok` if there are none; printed, one per line.

    Raises:
        ConfigError: A name that is no task, or a model without data.

    Example:
        >>> import fl_dp, torch
        >>> records = torch.randn(8, 4), torch.randint(2, (8,))
        >>> fl_dp.validate(torch.nn.Linear(4, 2), records).ok
        True
        >>> mixing = torch.nn.Sequential(torch.nn.BatchNorm1d(4, affine=False), torch.nn.Linear(4, 2))
        >>> print(fl_dp.validate(mixing, records))  # doctest: +ELLIPSIS
        found: model, layer 0: a batch norm mixes the examples of a batch; ...
    """
    forget()
    task = _task_of(task_or_model, data, config)
    names = config.metric_names if config else ()
    result = validate_task(task, metrics=names, test=test)
    if test and result.ok and result.model is not None and (records := records_of(task, "test")) is not None:
        with result.finding("metrics"):
            try_own_metrics(
                result.model, records, task, find_device(config.device if config else AUTO), names
            )
    if isinstance(task_or_model, TaskSettings) and task_or_model.by_client:
        result.notes.append(f"only {task.settings.data} was read, and no other client's file")
    if config and result.model is not None:
        parameters = list(result.model.parameters())
        try:
            check_optimizer(config.optimizer, config.other_settings, config.momentum, parameters)
        except FlDpError as error:
            result.findings.append(Finding("optimizer", str(error)))
        try:
            check_algorithm(config.local_algorithm, config.pull, config.learning_rate, config.optimizer)
            personal_names(config.personal, tuple(trainable(result.model)))
        except FlDpError as error:
            result.findings.append(Finding("local algorithm", str(error)))
    return result


def _task_of(given: Any, data: Any, config: RunConfig | None) -> Task:
    settings = TaskSettings(**config.of_task()) if config else TaskSettings()
    if isinstance(given, nn.Module):
        if data is None:
            raise ConfigError("validate: a model alone has no data; give inputs and targets as well.")
        return _of_model(given, data, settings)
    if isinstance(given, Task):
        return given
    if isinstance(given, type) and issubclass(given, Task):
        return given(settings)
    if isinstance(given, TaskSettings):
        return _of_settings(given)
    if isinstance(given, str):
        return _of_settings(TaskSettings(**{**settings.of_task(), "task": given}))
    raise ConfigError(f"validate: expected a task, its name or a model, not {type(given).__name__}.")


def _of_settings(settings: TaskSettings) -> Task:
    """The task that they name; of a file per client, one is for training, the server's for testing."""
    if not settings.by_client:
        return task_of(settings)
    first, *others = _clients_with_files(settings.data)
    one = of_client(settings, first)
    server = task_of(of_client(settings, SERVER)) if SERVER in others else None
    kind = type(task_of(one))

    def test_data(self: Task) -> Any:
        return server.test_data() if server else None

    own: type[Task] = type(kind.__name__, (kind,), {"test_data": test_data})  # its own: tasks are shared
    return own(one)


def _clients_with_files(data: str) -> list[str]:
    """Names whose files exist, the server last; ConfigError if no client's does."""
    path = absolute_name(data).partition(":")[2]
    names = clients_there(path)
    if not set(names) - {SERVER}:
        such = path.replace(CLIENT, "0")
        raise ConfigError(f"data = {data!r}: no file of a client was found, such as {such}.")
    return sorted(names, key=lambda name: (name == SERVER, name != "0", name))


def _of_model(model: nn.Module, data: Any, settings: TaskSettings) -> Task:
    class Given(Task):
        """A model and data passed in by a program."""

        def model(self) -> nn.Module:
            return model

        def train_data(self) -> Any:
            return data

        def test_data(self) -> Any:
            return None

    targets = None if isinstance(data, TensorData) or len(data) != 2 else torch.as_tensor(data[1])
    if targets is not None and not targets.is_floating_point():
        Given.classes = names_of(int(targets.max()) + 1)
    return Given(settings)
