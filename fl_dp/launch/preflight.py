"""Everything that can be checked before a process is started: paths, data, parts, model, cores."""

import dataclasses
from pathlib import Path

from fl_dp.config import RunConfig
from fl_dp.errors import ConfigError, ModelError
from fl_dp.launch.arguments import EXPECTED, PHYSICAL, Request, name_arguments
from fl_dp.launch.clients import client_config

_PATH_SOURCES = ("npz:", "folder:")


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """`config` such that it means the same from any working directory."""
    data = config.data
    for source in _PATH_SOURCES:
        if data.startswith(source):
            data = source + str(_absolute(data.removeprefix(source)))
    return dataclasses.replace(config, data=data, data_root=str(_absolute(config.data_root)))


def check_server(config: RunConfig) -> None:
    """Load the test data and build the model.

    Raises DataError, and ConfigError when a setting is at fault: an unknown name, or a model that
    does not fit the data.
    """
    from fl_dp.data.sources import DATA_SETS, load_data
    from fl_dp.models.registry import build_model

    if _kind(config.data) not in map(_kind, DATA_SETS):
        raise ConfigError(f"data = {config.data!r}: unknown data set; expected {', '.join(DATA_SETS)}.")
    test = load_data(config.data, Path(config.data_root), "test")
    try:
        build_model(config.model, test.input_shape, test.num_classes, config.seed)
    except ModelError as error:
        raise ConfigError(str(error)) from error


def fit_batches(request: Request) -> Request:
    """`request` with logical batches that every client's part can fill.

    Loads the training data, downloading them once for all clients, and cuts them into parts.
    A batch size from the config file is lowered, one that the user gave is refused (ConfigError):
    a Poisson draw cannot expect more records than there are.
    """
    config = request.config
    records = _smallest_part(config)
    if config.expected_batch_size <= records:
        return request
    physical = config.physical_batch_size
    if PHYSICAL not in request.given:
        physical = min(physical, records)
    expected = records // physical * physical
    if EXPECTED in request.given or expected == 0:
        raise ConfigError(
            name_arguments(
                f"{EXPECTED} = {config.expected_batch_size}: more than the {records} records of the smallest "
                f"of {config.clients} parts; lower it, or launch fewer clients."
            )
        )
    note = (
        f"{EXPECTED} = {expected} (the config file says {config.expected_batch_size}; a part has {records})"
    )
    fitting = dataclasses.replace(config, expected_batch_size=expected, physical_batch_size=physical)
    return dataclasses.replace(request, config=fitting, notes=(*request.notes, note))


def _smallest_part(config: RunConfig) -> int:
    from fl_dp.data.partition import load_part

    parts = (load_part(client_config(config, client, Path("unused"))) for client in range(config.clients))
    return min(map(len, parts))


def _kind(data: str) -> str:
    """`npz` of `npz:PATH`."""
    return data.partition(":")[0]


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()
