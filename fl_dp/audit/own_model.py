"""A config's model and records, as its first client and its server have them."""

import torch
from torch import nn

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.data.persons import Examples, PersonData
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.models.start import load_start
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import SERVER, load_part, of_client, records_of
from fl_dp.tasks.task import Task

_OF_THE_LOSS = ("losses", "outputs", "weights")  # parts of a task that an audit's own task does not have


def own_part(config: RunConfig) -> Examples:
    """The data of the run's first client."""
    return load_part(
        ClientConfig(client="0", ledger="none", num_partitions=config.clients, **config.of_task())
    )


def records_of_examples(data: Examples) -> TensorData:
    """The records of the examples, whether these are records or persons."""
    return data.records if isinstance(data, PersonData) else data


def spare_records(config: RunConfig) -> TensorData:
    """The server's test data; ConfigError if it has none."""
    found = records_of(task_of(of_client(config, SERVER)), "test")
    if found is None:
        raise ConfigError("--own-model makes canaries of test data, and there are none.")
    return found


def own_model(config: RunConfig, part: Examples) -> nn.Module:
    """What clients train in the first round: the start weights, the adapters, and the frozen parts.

    Raises ConfigError for a task with a loss of its own: an audit's canaries are made for the built-in ones.
    """
    task = task_of(config)
    own = [name for name in _OF_THE_LOSS if getattr(type(task), name) is not getattr(Task, name)]
    if own:
        raise ConfigError(
            f"task = {config.task!r}: it has {own[0]}() of its own, and --own-model audits a model under one "
            "of the built-in losses. Leave --own-model out."
        )
    task.form = part.form
    model = new_model(task)
    load_start(model, config.start)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("--own-model: nothing of this model is trained, so there is nothing to audit.")
    return model


def first_records(data: TensorData, count: int) -> TensorData:
    """The first `count` records, or all if there are fewer."""
    return data.subset(torch.arange(min(count, len(data))))
