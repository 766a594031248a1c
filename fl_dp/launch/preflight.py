"""What is checked before a process is started: paths, names, data, parts, model."""

import dataclasses
from pathlib import Path

from fl_dp.config.run import DATA_SETS, MODELS, RunConfig
from fl_dp.errors import ConfigError, ModelError

_PATH_SOURCES = ("npz:", "folder:")


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """`config` with absolute paths, so that it means the same in any working directory."""
    data = config.data
    for source in _PATH_SOURCES:
        if data.startswith(source):
            data = source + str(_absolute(data.removeprefix(source)))
    return dataclasses.replace(config, data=data, data_root=str(_absolute(config.data_root)))


def check_names(config: RunConfig) -> None:
    """ConfigError for a data set or a model that is not there: known at once, before anything is loaded."""
    if _kind(config.data) not in map(_kind, DATA_SETS):
        raise ConfigError(f"data = {config.data!r}: unknown data set; expected {', '.join(DATA_SETS)}.")
    if _kind(config.model) not in map(_kind, MODELS):
        raise ConfigError(f"model = {config.model!r}: unknown model; expected {', '.join(MODELS)}.")


def check_server(config: RunConfig) -> None:
    """Load the test data, build the model, and see that the engine can protect it.

    Raises DataError, and ConfigError when a setting is at fault: an unknown name, a model that
    does not fit the data, or one that cannot be trained privately.
    """
    import torch

    from fl_dp.data.source import load_data
    from fl_dp.engine.tracing.probe import probe
    from fl_dp.models.build import build_model

    test = load_data(config.data, Path(config.data_root), "test")
    try:
        model = build_model(config.model, test.input_shape, test.num_classes, config.seed)
    except ModelError as error:
        raise ConfigError(str(error)) from error
    try:
        probe(model, test.batch(torch.arange(1))[0])
    except ModelError as error:
        raise ConfigError(f"model = {config.model!r} cannot be trained privately: {error}") from error


def check_parts(config: RunConfig) -> tuple[str, ...]:
    """Load the training data, downloading them once for all clients, and cut them into parts.

    Returns notes on the parts for the user. Raises DataError.
    """
    from fl_dp.data.partition import load_parts

    smallest = min(map(len, load_parts(config)[1]))
    if smallest >= config.expected_batch_size:
        return ()
    return (
        f"the smallest part has {smallest} records; a client with fewer than "
        f"expected-batch-size = {config.expected_batch_size} takes all of its records in every step",
    )


def _kind(data: str) -> str:
    """`npz` of `npz:PATH`."""
    return data.partition(":")[0]


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()
