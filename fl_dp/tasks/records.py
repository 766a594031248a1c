"""A site's records: read from its task, checked, and split into parts."""

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from fl_dp.config.client import ClientConfig
from fl_dp.config.data import CLIENT, OWN
from fl_dp.config.run import RunConfig
from fl_dp.config.task import TaskSettings
from fl_dp.data.files_read import FilesRead
from fl_dp.data.fixed_features import features_of
from fl_dp.data.partition import parts_of
from fl_dp.data.partition_scheme import Indices, PartitionSettings, is_whole
from fl_dp.data.persons import Examples, by_unit
from fl_dp.data.source import seen
from fl_dp.data.tensor_data import Split, TensorData
from fl_dp.errors import ConfigError, DataError, TaskError
from fl_dp.form import names_of
from fl_dp.tasks.held_out import HeldOut, LoadHeldOut, split, split_key
from fl_dp.tasks.load import in_task_code, new_tasks, task_of
from fl_dp.tasks.task import Task

SERVER = "server"  # the client name whose file holds the server's test data


def records_of(task: Task, split: Split) -> TensorData | None:
    """One split of the task's data, read once until it changes: do not write into it. None: there is none.

    Sets the task's form. DataError for what no TensorData can hold, TaskError for errors of the user's code.
    """
    data = _records(task, split, seen(task.settings))
    if data is not None:
        task.form, task.class_names = data.form, data.classes
    return data


@lru_cache(maxsize=2)  # a simulation's process asks for the same splits thousands of times
def _records(task: Task, split: Split, seen: tuple[int, ...]) -> TensorData | None:
    with in_task_code(type(task), f"{split}_data()"):
        found = task.train_data() if split == "train" else task.test_data()
        data = found if found is None or isinstance(found, TensorData) else as_data(task, found)
    features = features_of(task.settings.features)
    return data if data is None or features is None else data.with_features(features)


def forget() -> None:
    """Forget all tasks and data: files may have changed, and classes in a notebook.

    Call it once, at the beginning of a public call: within it all code works on the same data.
    """
    new_tasks()
    _records.cache_clear()
    _joined.cache_clear()


def evaluation_records(config: RunConfig, task: Task) -> TensorData | None:
    """The server's test data; None if it evaluates nothing. Sets the task's form.

    If each client has its own file, the server's is that of a client named `server`.

    Without test data, a built-in model takes its shape from the data's schema, or from the training data that
    the config names. The user's own model() needs none. DataError, with what to do, if test data are missing.
    """
    if config.server_evaluates:
        found = records_of(_task_for(config, task, SERVER), "test")
        if found is None:
            raise DataError('There are no test data, which evaluate = "server" needs; set evaluate = "off".')
        if lacks_test_data(task) and task.classes and len(names_of(task.classes)) != len(found.classes):
            raise DataError(
                f"The task has no test_data() of its own, and data = {config.data!r} has other classes. "
                'Write test_data(), or set evaluate = "off".'
            )
        task.form, task.class_names = found.form, found.classes
        return found
    with in_task_code(type(task), "public_form()"):
        form = task.public_form()
    if form is not None:
        features = features_of(config.features)
        shape = features.shape(form.input_shape) if features else form.input_shape
        task.form = dataclasses.replace(form, input_shape=shape)
        task.class_names = task.public_classes() or task.class_names
    elif type(task).model is Task.model:
        first = records_of(_task_for(config, task, "0"), "train")
        if first is not None:
            task.form, task.class_names = first.form, first.classes
    return None


def lacks_test_data(task: Task) -> bool:
    """Whether the task has its own training records, but the test records of the setting `data`."""
    return type(task).train_data is not Task.train_data and type(task).test_data is Task.test_data


def train_records(settings: TaskSettings) -> TensorData:
    """The site's records; TaskError if its task has none."""
    data = records_of(task_of(settings), "train")
    if data is None:
        raise TaskError(f"task {settings.task}: train_data() returned nothing.")
    return data


def load_part(config: ClientConfig) -> Examples:
    """What the client may train on: its part of the site's records, by unit, without its own test records.

    The data set and its parts are cached: a process that simulates many clients reads and splits once.
    """
    if not config.test_share:
        return load_undivided(config)
    train, rows = _own_rows(config)
    kept = split(train, rows, config, split_key(config))[0]
    return by_unit(train.subset(torch.from_numpy(kept)), config)


def load_undivided(config: ClientConfig) -> Examples:
    """The client's part, including the records that a share of `test` keeps for testing: not to train on."""
    train, rows = _own_rows(config)
    if len(rows) == len(train):
        return by_unit(train, config)  # everything, so no copy
    return by_unit(train.subset(torch.from_numpy(rows)), config)


def load_held_out(config: ClientConfig, key: bytes) -> HeldOut:
    """The client's test records. key: its ledger's, see `split_key`."""
    if not config.test_share:
        return site_test_records(config)
    train, rows = _own_rows(config)
    return HeldOut.of(train, split(train, rows, config, key)[1], config)


def divided(
    config: RunConfig, client: ClientConfig, train: TensorData, parts: Sequence[Indices]
) -> tuple[Sequence[Indices], LoadHeldOut]:
    """For a simulation: each client's rows to train on, and a function that loads its test records.

    client: settings of one client, whose ledger all share. DataError if a client has no record left to train.
    """
    if not config.test_share:
        return parts, load_held_out
    key = split_key(client)
    sides = [split(train, rows, config, key) for rows in parts]
    if empty := [number for number, (kept, _) in enumerate(sides) if not len(kept)]:
        raise DataError(
            f"test = {config.test:g}: leaves client {empty[0]} no record to train on, of its "
            f"{len(parts[empty[0]])}; set a smaller test, fewer clients, or another partition."
        )

    def load(settings: ClientConfig, key: bytes) -> HeldOut:
        return HeldOut.of(train, sides[settings.partition_id][1], settings)

    return [kept for kept, _ in sides], load


def site_test_records(settings: ClientConfig) -> HeldOut:
    """With test = own: the test records of the site's data source or task, of which there may be none.

    ConfigError for a part of a common data set, unless groups say which test records belong to the part.
    """
    own = of_client(settings, settings.client)
    test = records_of(task_of(own), "test")
    if test is None:
        return HeldOut(None, None)
    if settings.by_client or is_whole(PartitionSettings.of(settings)):
        return HeldOut.of(test, np.arange(len(test)), settings)
    if not settings.partition.startswith("by:") or not test.groups:
        raise ConfigError(
            f'test = "{OWN}" with partition = {settings.partition!r}: all parts of a common data set have '
            "the same test records. Set test to a share, such as 0.2, or partition = by:COLUMN."
        )
    train, parts = load_parts(settings)
    name = train.groups[int(parts[settings.partition_id][0])]
    return HeldOut.of(test, np.flatnonzero(np.array(test.groups) == name), settings)


def _own_rows(config: ClientConfig) -> tuple[TensorData, Indices]:
    """The records that contain the client's, and the rows of its own."""
    if config.by_client or is_whole(PartitionSettings.of(config)):
        train = train_records(of_client(config, config.client))
        return train, np.arange(len(train))
    train, parts = load_parts(config)
    return train, parts[config.partition_id]


def load_parts(config: ClientConfig | RunConfig) -> tuple[TensorData, Sequence[Indices]]:
    """The training split, and the indices of every client's part of it.

    If each client has its own file, all are read. DataError, with the client's number, for a file that is
    missing or of another form than the first.
    """
    if config.by_client:
        if isinstance(config, ClientConfig):
            raise ValueError("a client reads its own file and no other")
        return _joined(TaskSettings(**config.of_task()), config.clients)[:2]
    train = train_records(config)
    return train, parts_of(train, PartitionSettings.of(config))


def files_read(config: RunConfig) -> Sequence[FilesRead | None]:
    """For each client's records out of `load_parts`, the files that they were read from."""
    if config.by_client:
        return _joined(TaskSettings(**config.of_task()), config.clients)[2]
    return [train_records(config).read] * config.clients


def of_client(settings: TaskSettings, client: str) -> TaskSettings:
    """The task settings of the client with that name: with its own file, if each has one."""
    own = TaskSettings(**settings.of_task())
    return dataclasses.replace(own, data=settings.data.replace(CLIENT, client)) if own.by_client else own


def _task_for(config: RunConfig, task: Task, client: str) -> Task:
    """`task`, or its version for that client if each reads a file of its own."""
    return task_of(of_client(config, client)) if config.by_client else task


@lru_cache(maxsize=1)
def _joined(
    settings: TaskSettings, clients: int
) -> tuple[TensorData, Sequence[Indices], Sequence[FilesRead | None]]:
    """All clients' files as one, the rows of each client, and the files that each was read from."""
    files = [_file_of(settings, str(client)) for client in range(clients)]
    for client, data in enumerate(files):
        _check_alike(files[0], data, client)
    ends = np.cumsum([0, *map(len, files)])
    whole = TensorData(
        torch.cat([data.x for data in files]),
        torch.cat([data.y for data in files]),
        files[0].classes,
        files[0].vocabulary,
        tuple(group for data in files for group in data.groups),
        tuple(digest for data in files for digest in data.raw),
        files[0].grouped_by,
        features=files[0].features,
    )
    rows = [np.arange(ends[client], ends[client + 1]) for client in range(clients)]
    return whole, rows, [data.read for data in files]


def _file_of(settings: TaskSettings, client: str) -> TensorData:
    try:
        return train_records(of_client(settings, client))
    except DataError as error:
        raise DataError(f"client {client}: {error}") from error


def _check_alike(first: TensorData, data: TensorData, client: int) -> None:
    """Raise DataError unless the public facts of the two agree; the error's text holds nothing else."""
    for what, theirs, own in (
        ("records", first.form, data.form),
        ("inputs of type", first.x.dtype, data.x.dtype),
        ("classes", first.classes, data.classes),
        ("groups", bool(first.groups), bool(data.groups)),
        ("raw digests", bool(first.raw), bool(data.raw)),
    ):
        if theirs != own:
            raise DataError(
                f"client {client}: expected {what} as client 0 has, {theirs}, not {own}, as one model is "
                "trained on all clients' files."
            )


def as_data(task: Task, found: Any) -> TensorData:
    """Inputs and targets, tensors or arrays, as a TensorData; DataError for anything else."""
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise DataError(f"Expected inputs and targets, or a TensorData, not {type(found).__name__}.")
    x, y = (torch.as_tensor(np.asarray(one) if not isinstance(one, torch.Tensor) else one) for one in found)
    if x.dtype != torch.uint8:
        x = x.to(torch.int64 if task.vocabulary else torch.float32)
    classes = names_of(task.classes)
    y = y if classes and not y.is_floating_point() else y.to(torch.float32)
    return TensorData(x, y, classes, task.vocabulary)
