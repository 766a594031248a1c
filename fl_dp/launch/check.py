"""`fl-dp check`: what a run would do, found out without starting it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.preflight import (
    check_budget,
    check_choices,
    check_names,
    check_server,
    split,
    with_absolute_paths,
)
from fl_dp.launch.request import Engine, RunRequest

if TYPE_CHECKING:
    from fl_dp.launch.forecast import Forecast
    from fl_dp.launch.measuring import Timing

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Check:
    """problems: what is wrong; a run would not start. notes: what it would say at its start.

    forecast, timing: None where something is wrong, and timing where no client can take part.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    forecast: "Forecast | None" = None
    timing: "Timing | None" = None

    @property
    def exit_code(self) -> ExitCode:
        """What the run would tell the shell, as far as that can be foreseen."""
        if self.problems or self.forecast is None:
            return ExitCode.USAGE
        return ExitCode.TRAINED if self.forecast.ends is None else ExitCode.BUDGET_EXHAUSTED


class _Trying:
    """Goes on after a mistake, so that all that can be found are told together."""

    def __init__(self, told: Callable[[FlDpError], str]) -> None:
        self.problems: list[str] = []
        self._told = told

    def __call__(self, step: Callable[[RunConfig], Found], config: RunConfig) -> Found | None:
        try:
            return step(config)
        except FlDpError as error:
            self.problems.append(self._told(error))
            return None

    def holds(self, step: Callable[[RunConfig], object], config: RunConfig) -> bool:
        """Whether the step finds nothing."""
        before = len(self.problems)
        self(step, config)
        return len(self.problems) == before


def check_run(
    request: RunRequest,
    *,
    engine: Engine | None,
    out: Path | None = None,
    ledger: Path | None = None,
    told: Callable[[FlDpError], str] = str,
) -> Check:
    """Hold the request against all that a launch refuses, then foresee its costs.

    Nothing is started, trained on records or written; of records their number alone is used. engine, out,
    ledger: as of a launch. told: an error's words.
    """
    trying = _Trying(told)
    if out is not None and (out.is_file() or (out / "config.toml").exists()):
        trying.problems.append(f"--out {out}: already holds a run, or is a file; name another folder.")
    if engine == "flower":
        from fl_dp.launch.flower.simulation import check_resources

        trying(check_resources, request.config)
    named = trying.holds(check_names, request.config) and trying.holds(check_choices, request.config)
    config = trying(with_absolute_paths, request.config) if named else None
    if config is None:
        return Check(tuple(trying.problems), request.notes)
    trying(check_server, config)
    parts = trying(split, config)
    if parts is None:
        return Check(tuple(trying.problems), request.notes)
    trying(lambda one: check_budget(one, max(parts.sizes)), config)
    notes = (*request.notes, *parts.notes)
    if trying.problems:
        return Check(tuple(trying.problems), notes)
    forecast = trying(lambda one: _forecast(one, parts.sizes, ledger), config)
    if forecast is None:
        return Check(tuple(trying.problems), notes)
    timing = trying(lambda one: _timing(forecast, simulated=engine is not None), config)
    return Check(tuple(trying.problems), notes, forecast, timing)


def _forecast(config: RunConfig, sizes: tuple[int, ...], ledger: Path | None) -> "Forecast":
    from fl_dp.federation.wire.round_arrays import shared_specs
    from fl_dp.launch.forecast import forecast_of
    from fl_dp.tasks.load import new_model, task_of

    shared = shared_specs(new_model(task_of(config)), config.personal)
    return forecast_of(config, sizes, ledger, shared)


def _timing(forecast: "Forecast", *, simulated: bool) -> "Timing | None":
    from fl_dp.launch.measuring import timing_of
    from fl_dp.tasks.load import task_of
    from fl_dp.tasks.records import evaluation_records

    test = evaluation_records(forecast.config, task_of(forecast.config))  # in memory since check_server
    return timing_of(forecast, simulated=simulated, test_records=0 if test is None else len(test))
