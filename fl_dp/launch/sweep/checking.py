"""The runs of a sweep, held against all that a launch refuses; and the sizes of their clients."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_dp.choices import SOURCES
from fl_dp.config.data import RECORD
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, DataError, FlDpError, ModelError, TaskError
from fl_dp.launch.preflight import (
    check_choices,
    check_names,
    check_parts,
    check_server,
    with_absolute_paths,
)
from fl_dp.launch.sweep.request import RequestedRun


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """A run that a launch would start.

    config: with absolute paths. sizes: public, of each client. public: whether the data are a public
    benchmark set. notes: what a launch would say.
    """

    run: RequestedRun
    config: RunConfig
    sizes: tuple[int, ...]
    public: bool
    notes: tuple[str, ...]


def check_runs(runs: Sequence[RequestedRun]) -> list[CheckedRun]:
    """Check every run, and read its data for their number; FlDpError, of the same kind, names the run.

    The model is tried once for all seeds of a point: it is of the same layers.
    """
    found, tried = [], set()
    for run in runs:
        try:
            found.append(_checked(run, tried=run.point.name in tried))
        except FlDpError as error:
            raise _named(run.name, error) from error
        tried.add(run.point.name)
    return found


def _checked(run: RequestedRun, *, tried: bool) -> CheckedRun:
    check_names(run.config)
    check_choices(run.config)
    config = with_absolute_paths(run.config)
    if not tried:
        check_server(config)
    notes = (*run.notes, *check_parts(config))
    return CheckedRun(run, config, _sizes(config), _is_public(config), notes)


def _sizes(config: RunConfig) -> tuple[int, ...]:
    from fl_dp.tasks.records import load_parts

    train, parts = load_parts(config)
    whose = train.groups if config.unit != RECORD else range(len(train))
    return tuple(len({whose[row] for row in part.tolist()}) for part in parts)


def _is_public(config: RunConfig) -> bool:
    """Only sets of our own are known to be public: of no other, and of no task's records, is it believed."""
    from fl_dp.data.source import choose_source
    from fl_dp.tasks.load import task_class
    from fl_dp.tasks.task import Task

    if config.task and task_class(config.task).train_data is not Task.train_data:
        return False
    if config.data.partition(":")[0] not in SOURCES.built_in():
        return False
    return choose_source(config.data)[0].public


def _named(name: str, error: FlDpError) -> FlDpError:
    """The error with the run's name; of a kind that the command line knows, which needs words alone."""
    kinds: tuple[type[FlDpError], ...] = (DataError, ModelError, TaskError)
    kind = next((one for one in kinds if isinstance(error, one)), ConfigError)
    return kind(f"{name}: {error}")
