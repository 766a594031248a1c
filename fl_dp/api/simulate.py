"""`fl_dp.simulate`, `fl_dp.check` and `fl_dp.plan`: a run called, checked or planned from Python."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fl_dp.api.given import Data, Records, named_data
from fl_dp.api.result import Result, load_run
from fl_dp.config.run import RunConfig
from fl_dp.config.values import key_of
from fl_dp.launch.check import CheckResult, check_run
from fl_dp.launch.defaults import check_open
from fl_dp.launch.defaults.proposal import Proposal, propose
from fl_dp.launch.launcher import launch
from fl_dp.launch.progress_reporter import ProgressReporter, reporting_progress
from fl_dp.launch.request import RunRequest, read_config, request_of
from fl_dp.tasks.load import give
from fl_dp.tasks.records import forget
from fl_dp.tasks.task import Task


def simulate(
    config: str | Path | RunConfig | None = None,
    *,
    data: Data | None = None,
    test_data: Records | None = None,
    task: str | type[Task] = "",
    out: str | Path | None = None,
    ledger: str | Path | None = None,
    ray_address: str = "",
    quiet: bool = False,
    local_figures: bool | None = None,
    **settings: Any,
) -> Result:
    """Simulate a federation in Ray, as `./run.sh --simulate` does, and return its result.

    Until the call ends, records in memory are kept in a temporary folder of this user alone. If Ray already
    runs in this process, it is used and left running. Signal handlers are not changed.

    Args:
        config: A run config or a flat TOML file; None: the defaults of `RunConfig`.
        data: A name, as in the config; or records in memory, a data frame with `schema` or a `TensorData`,
            which `partition` divides among the clients; or a mapping with each client's records, in the
            mapping's order.
        test_data: The server's test data, unless a frame's schema says which records they are.
        task: A class, which may be defined in a notebook, or a name as in the config.
        out: The run's folder; None: a new one below `runs`.
        ledger: The folder of the clients' ledger; None: in the run's folder, so that each run counts by
            itself. For private data, name a permanent one.
        ray_address: Address of a Ray cluster; empty: this machine alone.
        quiet: Print nothing, and show no progress bar.
        local_figures: Measure each client's model on the records that it holds out by `test`, see
            `Result.local_figures`. These figures are not noised, and no epsilon covers these records. None:
            if the data are public, or declared so by `public_data`.
        settings: Any key of the run config, with `_` for `-`.

    Returns:
        The finished run. It may have ended early because budgets are spent: see `Result.status`.

    Raises:
        ConfigError: Wrong settings.
        FlDpError: The run failed, and why; with `out`, its logs are in that folder.
        KeyboardInterrupt: Ctrl-C; the run has ended.

    Example:
        >>> import fl_dp
        >>> result = fl_dp.simulate(
        ...     data="digits", clients=2, rounds=1, epsilon=3, out="runs/first", quiet=True
        ... )
        >>> result.status
        'completed'
        >>> 0 < result.epsilon <= 3
        True
    """
    base = as_config(config)
    lasting = isinstance(task, str) and (data is None or isinstance(data, str))
    with (
        named_data(data, test_data, settings, base, task) as named,
        reporting_progress(
            nothing if quiet else partial(print, flush=True), quiet=quiet, lasting=lasting
        ) as tell,
    ):
        return simulated(
            asked(base, task, named),
            tell,
            out=None if out is None else Path(out).expanduser(),
            ledger=None if ledger is None else Path(ledger).expanduser(),
            ray_address=ray_address,
            quiet=quiet,
            local_figures=local_figures,
        )


def simulated(
    request: RunRequest,
    tell: ProgressReporter,
    *,
    out: Path | None,
    ledger: Path | None,
    ray_address: str = "",
    quiet: bool = False,
    local_figures: bool | None = None,
) -> Result:
    """As `simulate`, which has the arguments, for a validated request."""
    launch(
        request,
        engine="ray",
        out=out,
        ledger=ledger,
        ray_address=ray_address,
        tell=tell,
        quiet=quiet,
        local_figures=local_figures,
    )
    assert tell.folder is not None
    return load_run(tell.folder.path, task=request.config.task or None, model=request.config.model)


def asked(
    config: str | Path | RunConfig | None, task: str | type[Task], settings: Mapping[str, Any]
) -> RunRequest:
    """The run that the arguments of `simulate` describe; tasks are created anew."""
    forget()
    given = {key_of(name): value for name, value in settings.items()}
    if task:
        given["task"] = task if isinstance(task, str) else give(task)
    return request_of(as_config(config), given)


def as_config(config: str | Path | RunConfig | None) -> RunConfig:
    """A config, read if a file is named; None: the defaults."""
    if config is None or isinstance(config, RunConfig):
        return config or RunConfig()
    return read_config(Path(config).expanduser())


def nothing(text: str) -> None:
    """Print nothing."""


def check(
    config: str | Path | RunConfig | None = None,
    *,
    data: Data | None = None,
    test_data: Records | None = None,
    task: str | type[Task] = "",
    ledger: str | Path | None = None,
    **settings: Any,
) -> CheckResult:
    """What `fl_dp.simulate` would do with the same arguments, as `fl-dp check --simulate`.

    Nothing is started or paid.

    Args:
        config: As in `fl_dp.simulate`, like `data`, `test_data`, `task` and `settings`.
        data: As there.
        test_data: As there.
        task: As there.
        ledger: The folder of the ledger whose spending counts, read and not changed; None: nothing is spent.
        settings: As there.

    Returns:
        Among others `problems`, empty if the run would start, and `forecast`, what it would cost its clients.

    Raises:
        ConfigError: Wrong settings; what is found later is among the problems.

    Example:
        >>> import fl_dp
        >>> found = fl_dp.check(data="digits", clients=2, rounds=2, epsilon=3)
        >>> list(found.problems), found.forecast.epsilon <= 3
        ([], True)
        >>> all(one.noise_multiplier > 0 for one in found.forecast.mechanisms)
        True
    """
    base = as_config(config)
    with named_data(data, test_data, settings, base, task) as named:
        place = None if ledger is None else Path(ledger).expanduser()
        return check_run(asked(base, task, named), engine="ray", ledger=place)


def plan(
    config: str | Path | RunConfig | None = None,
    *,
    data: Data | None = None,
    test_data: Records | None = None,
    task: str | type[Task] = "",
    most_rounds: int | None = None,
    most_passes: int | None = None,
    **settings: Any,
) -> Proposal:
    """Choose settings of a simulated run by the rule of docs/planning.md, as `fl-dp plan`.

    Only the number and form of the records are used, and nothing is started or paid.

    Args:
        config: As in `fl_dp.simulate`, like `data`, `test_data`, `task` and `settings`.
        data: As there; records in memory are needed again for the run.
        test_data: As there.
        task: As there.
        most_rounds: The most rounds allowed.
        most_passes: The most passes over each client's records in all rounds.
        settings: As there, except those that the rule chooses.

    Returns:
        The run's config and, in `run.reasons`, the reason for each setting.

    Raises:
        ConfigError: A wrong setting, or one that the rule chooses.

    Example:
        >>> import fl_dp
        >>> planned = fl_dp.plan(data="digits", epsilon=3, clients=2, most_rounds=3)
        >>> planned.config.rounds <= 3, planned.config.epsilon
        (True, 3.0)
    """
    check_open(name.replace("_", "-") for name in settings)
    base = as_config(config)
    with named_data(data, test_data, settings, base, task) as named:
        return propose(asked(base, task, named), most_rounds=most_rounds, most_passes=most_passes)
