"""`fl-dp check`: what a run would do, found out without starting it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fl_dp.config.run import RunConfig
from fl_dp.errors import FlDpError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.files_first import check_clients_files, check_server_files
from fl_dp.launch.ledger_place import check_no_ledger_yet, check_one_choice, ledger_place
from fl_dp.launch.preflight import (
    check_budget,
    check_choices,
    check_names,
    check_server,
    notes_of_served,
    split,
    with_absolute_paths,
)
from fl_dp.launch.request import Engine, RunRequest
from fl_dp.reporting.run_folder import check_unclaimed

if TYPE_CHECKING:
    from fl_dp.launch.forecast import Forecast
    from fl_dp.launch.measuring import Timing

Value = TypeVar("Value")
MARGIN = 2.0  # a run's seconds over those that are foreseen: machines are seldom idle, see docs/check.md
_SERVER_ALONE = "a server whose clients bring their records needs none of them here: fl-dp check --server"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """problems: what is wrong; a run would not start. notes: what it would say at its start.

    forecast, timing: None where something is wrong, and timing where no client can take part.
    server: a server alone was looked at, whose clients are elsewhere: nothing is foreseen of them.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    forecast: "Forecast | None" = None
    timing: "Timing | None" = None
    server: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """What the run would tell the shell, as far as that can be foreseen."""
        if self.server and not self.problems:
            return ExitCode.TRAINED
        if self.problems or self.forecast is None:
            return ExitCode.USAGE
        return ExitCode.TRAINED if self.forecast.ends is None else ExitCode.BUDGET_EXHAUSTED


class _Trying:
    """Goes on after a mistake, so that all that can be found are told together."""

    def __init__(self, told: Callable[[FlDpError], str]) -> None:
        self.problems: list[str] = []
        self._told = told

    def __call__(self, step: Callable[[RunConfig], Value], config: RunConfig) -> Value | None:
        try:
            return step(config)
        except FlDpError as error:
            self._add(self._told(error))
            return None

    def _add(self, words: str) -> None:
        """Once, where two steps meet one mistake; with whose it is, where one of them knows."""
        self.problems = [one for one in self.problems if not words.endswith(one)]
        if not any(one.endswith(words) for one in self.problems):
            self.problems.append(words)

    def holds(self, step: Callable[[RunConfig], object], config: RunConfig) -> bool:
        """Whether the step finds nothing."""
        before = list(self.problems)
        self(step, config)
        return self.problems == before


def check_run(
    request: RunRequest,
    *,
    engine: Engine | None,
    out: Path | None = None,
    ledger: Path | None = None,
    one_run_ledger: bool = False,
    told: Callable[[FlDpError], str] = str,
) -> CheckResult:
    """Hold the request against all that a launch refuses, then foresee its costs.

    Nothing is started, trained on records or written; of records their number alone is used. engine, out,
    ledger, one_run_ledger: as of a launch. told: an error's words.
    """
    trying = _Trying(told)
    trying(lambda _: check_one_choice(ledger, one_run=one_run_ledger), request.config)
    if out is not None:
        trying(lambda _: check_unclaimed(out), request.config)
    if engine == "flower":
        from fl_dp.launch.flower.simulation import check_resources

        trying(check_resources, request.config)
    if not trying.holds(check_clients_files, request.config):  # before anything that imports torch
        return CheckResult(tuple(trying.problems), (*request.notes, *_as_server(request.config)))
    named = trying.holds(check_names, request.config) and trying.holds(check_choices, request.config)
    config = trying(with_absolute_paths, request.config) if named else None
    if config is None:
        return CheckResult(tuple(trying.problems), request.notes)
    trying(check_server, config)
    parts = trying(split, config)
    if parts is None:
        return CheckResult(tuple(trying.problems), request.notes)
    trying(lambda one: check_budget(one, max(parts.sizes)), config)
    notes = (*request.notes, *parts.notes)
    if trying.problems:
        return CheckResult(tuple(trying.problems), notes)
    place = ledger_place(config, engine, ledger, one_run=one_run_ledger)
    if place.one_run and not trying.holds(lambda _: check_no_ledger_yet(out), config):
        return CheckResult(tuple(trying.problems), notes)
    forecast = trying(lambda one: forecast_run(one, parts.sizes, place.folder), config)
    if forecast is None:
        return CheckResult(tuple(trying.problems), notes)
    timing = trying(lambda one: time_run(forecast, simulated=engine is not None), config)
    return CheckResult(tuple(trying.problems), notes, forecast, timing)


def _as_server(config: RunConfig) -> tuple[str, ...]:
    """What to say where a file is missing that a server alone would not look for."""
    return (_SERVER_ALONE,) if config.evaluate == "off" else ()


def check_served(
    request: RunRequest, *, out: Path | None = None, told: Callable[[FlDpError], str] = str
) -> CheckResult:
    """Hold the request against all that `fl-dp server` refuses; its clients and their records are elsewhere.

    out, told: as of `check_run`.
    """
    trying = _Trying(told)
    if out is not None:
        trying(lambda _: check_unclaimed(out), request.config)
    named = (
        trying.holds(check_server_files, request.config)
        and trying.holds(check_names, request.config)
        and trying.holds(check_choices, request.config)
    )
    config = trying(with_absolute_paths, request.config) if named else None
    if config is not None:
        trying(check_server, config)
    notes = (*request.notes, *notes_of_served(request.config))
    return CheckResult(tuple(trying.problems), notes, server=True)


def forecast_run(config: RunConfig, sizes: tuple[int, ...], ledger: Path | None) -> "Forecast":
    from fl_dp.federation.wire.round_arrays import shared_specs
    from fl_dp.launch.forecast import forecast_of
    from fl_dp.tasks.load import new_model, task_of

    shared = shared_specs(new_model(task_of(config)), config.personal)
    return forecast_of(config, sizes, ledger, shared)


def time_run(forecast: "Forecast", *, simulated: bool, known: "Timing | None" = None) -> "Timing | None":
    """known: as of `timing_of`."""
    from fl_dp.launch.measuring import timing_of
    from fl_dp.tasks.load import task_of
    from fl_dp.tasks.records import evaluation_records

    test = evaluation_records(forecast.config, task_of(forecast.config))  # in memory since check_server
    records = 0 if test is None else len(test)
    return timing_of(forecast, simulated=simulated, test_records=records, known=known)
