"""`fl-dp check`: what a run would do, without starting it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.config.run import RunConfig
from fl_dp.errors import DataError, FlDpError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.files_first import check_clients_files, check_server_files
from fl_dp.launch.ledger_place import check_no_ledger_yet, check_one_choice, ledger_place
from fl_dp.launch.preflight import (
    Parts,
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
    from fl_dp.launch.site_metrics import SiteMetricsForecast

_OF_MODEL = ("model", "losses()")  # where a finding lies that the server's own checks would find again
_SERVER_ALONE = (
    "if the clients bring their own records, the server needs none of them here: fl-dp check --server"
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """problems: what is wrong; a run would not start. notes: what a run would say at its start.

    forecast: None if there are problems. site_metrics: None also if there are none, or none is known.
    server: only a server was checked. Its clients are elsewhere, so nothing is forecast for them.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    forecast: "Forecast | None" = None
    server: bool = False
    site_metrics: "SiteMetricsForecast | None" = None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that the run would return, as far as it can be foreseen."""
        if self.problems or not (self.server or self.forecast):
            return ExitCode.USAGE
        early = self.forecast is not None and self.forecast.ends is not None
        return ExitCode.BUDGET_EXHAUSTED if early else ExitCode.TRAINED


class _Mistakes:
    """Collects the errors of several `with` blocks. Each ends at its first error; later ones still run."""

    def __init__(self, told: Callable[[FlDpError], str]) -> None:
        self.found: tuple[str, ...] = ()
        self._told = told

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, FlDpError):
            return False
        self.add(self._told(error))
        return True

    def add(self, words: str) -> None:
        """Report a mistake that two steps find once, in the wording that names whose it is."""
        if not any(one.endswith(words) for one in self.found):
            self.found = (*(one for one in self.found if not words.endswith(one)), words)


def check_run(
    request: RunRequest,
    *,
    engine: Engine | None,
    out: Path | None = None,
    ledger: Path | None = None,
    one_run_ledger: bool = False,
    told: Callable[[FlDpError], str] = str,
) -> CheckResult:
    """Check the request against everything that a launch refuses, then forecast its costs.

    Nothing is started, trained on records or written. Of the records only their form, their number and the
    classes that occur are used. engine, out, ledger, one_run_ledger: as in a launch. told: turns an error
    into words.
    """
    wrong, notes, config, forecast = _Mistakes(told), [*request.notes], request.config, None
    of_sites = None
    with wrong:
        check_one_choice(ledger, one_run=one_run_ledger)
    if out is not None:
        with wrong:
            check_unclaimed(out)
    with wrong:
        try:
            check_clients_files(config)  # before anything that imports torch
        except DataError:
            notes += [_SERVER_ALONE] if config.evaluate == "off" else []
            raise
        check_names(config)
        check_choices(config)
        config = with_absolute_paths(config)
        from fl_dp.federation.devices import find_device

        with wrong:
            find_device(config.device)
        parts: Parts | None = None
        with wrong:
            parts = split(config)
        with wrong:
            notes += _check_task(config, wrong) if parts else ()
            if not any(one.startswith(_OF_MODEL) for one in wrong.found):
                check_server(config)
        if parts is None:
            return CheckResult(wrong.found, tuple(notes))
        notes += parts.notes
        check_budget(config, max(parts.sizes))
        if not wrong.found:
            place = ledger_place(config, engine, ledger, one_run=one_run_ledger)
            if place.one_run:
                check_no_ledger_yet(out)
            from fl_dp.launch.forecast import forecast_of
            from fl_dp.launch.measuring import memory_of
            from fl_dp.launch.site_metrics import forecast_site_metrics

            of_sites = forecast_site_metrics(config, parts.sizes)
            forecast = forecast_of(config, parts.sizes, place.folder)
            forecast = replace(forecast, memory=memory_of(forecast))
    return CheckResult(wrong.found, tuple(notes), forecast, site_metrics=of_sites)


def _check_task(config: RunConfig, wrong: _Mistakes) -> list[str]:
    """Collect everything in task, data and model that training would refuse; returns notes about them."""
    from fl_dp.launch.validation import validate

    task = validate(config, config=config, test=config.evaluate == "server")
    before = wrong.found
    for one in task.findings:
        if not any(known.endswith(one.what) for known in before):
            wrong.add(str(one))
    return task.notes


def check_served(
    request: RunRequest, *, out: Path | None = None, told: Callable[[FlDpError], str] = str
) -> CheckResult:
    """Check the request against everything that `fl-dp server` refuses; clients and records are elsewhere.

    out, told: as in `check_run`.
    """
    wrong, config, of_sites = _Mistakes(told), request.config, None
    if out is not None:
        with wrong:
            check_unclaimed(out)
    with wrong:
        check_server_files(config)
        check_names(config)
        check_choices(config)
        config = with_absolute_paths(config)
        check_server(config)
        from fl_dp.launch.site_metrics import forecast_site_metrics

        of_sites = forecast_site_metrics(config)
    notes = (*request.notes, *notes_of_served(config))
    return CheckResult(wrong.found, notes, server=True, site_metrics=of_sites)
