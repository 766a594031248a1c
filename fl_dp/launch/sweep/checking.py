"""The runs of a sweep, held against all that a launch refuses; and the sizes of their clients."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, DataError, FlDpError, ModelError, TaskError
from fl_dp.launch.preflight import (
    check_budget,
    check_choices,
    check_names,
    check_server,
    split,
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
    from fl_dp.federation.client.registration import is_public

    parts = split(config)
    check_budget(config, max(parts.sizes))
    return CheckedRun(run, config, parts.sizes, is_public(config), (*run.notes, *parts.notes))


def _named(name: str, error: FlDpError) -> FlDpError:
    """The error with the run's name; of a kind that the command line knows, which needs words alone."""
    kinds: tuple[type[FlDpError], ...] = (DataError, ModelError, TaskError)
    kind = next((one for one in kinds if isinstance(error, one)), ConfigError)
    return kind(f"{name}: {error}")
