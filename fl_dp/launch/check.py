"""`fl-dp check`: what a run would do, without starting it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.config.run import RunConfig
from fl_dp.errors import DataError, ExitCode, FlDpError
from fl_dp.launch.first_checks import check_first
from fl_dp.launch.ledger_place import check_no_ledger_yet, check_one_choice, ledger_place
from fl_dp.launch.request import Engine, RunRequest
from fl_dp.reporting.run_folder import check_unclaimed

if TYPE_CHECKING:
    from fl_dp.launch.forecast import Forecast, SiteMetricsForecast

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
        """Add a mistake. If two steps find it, only the wording that names the client is kept."""
        if not any(one.endswith(words) for one in self.found):
            self.found = (*(one for one in self.found if not words.endswith(one)), words)


def check_run(
    request: RunRequest,
    *,
    engine: Engine | None,
    out: Path | None = None,
    ledger: Path | None = None,
    one_run_ledger: bool = False,
    server: bool = False,
    told: Callable[[FlDpError], str] = str,
) -> CheckResult:
    """Check the request against everything that a launch refuses, then forecast its costs.

    Nothing is started, trained on records or written. Of the records only their form, their number and the
    classes that occur are used. engine, out, ledger, one_run_ledger: as in a launch. server: that of `fl-dp
    server`, whose clients and records are elsewhere. told: turns an error into words.
    """
    request = request.simulated(engine)
    wrong, notes, cost, of_sites = _Mistakes(told), [*request.notes], None, None

    def check_task(config: RunConfig) -> bool:
        notes.extend(_check_task(config, wrong))
        return not any(one.startswith(_OF_MODEL) for one in wrong.found)

    with wrong:
        check_one_choice(ledger, one_run=one_run_ledger)
    if out is not None:
        with wrong:
            check_unclaimed(out)
    with wrong:
        try:
            check_first(request.config, clients=not server)
        except DataError:
            notes += [_SERVER_ALONE] if not (request.config.server_evaluates or server) else []
            raise
        from fl_dp.launch import forecast, measuring, preflight  # late: they import PyTorch, for a second

        if server:
            checked = preflight.preflight(request.config, clients=False)
        else:
            checked = preflight.preflight(request.config, clients=True, each=wrong, check_task=check_task)
        notes += checked.notes
        config, sizes = checked.config, checked.sizes
        if not wrong.found:
            of_sites = forecast.forecast_site_metrics(config, sizes)
        if not wrong.found and not server:
            place = ledger_place(config, engine, ledger, one_run=one_run_ledger)
            if place.one_run:
                check_no_ledger_yet(out)
            cost = forecast.forecast_of(config, sizes, place.folder)
            cost = replace(cost, memory=measuring.memory_of(cost))
    return CheckResult(wrong.found, tuple(notes), cost, server, of_sites)


def mistakes_in(request: RunRequest, *, engine: Engine | None) -> tuple[str, ...]:
    """What a launch would refuse before it starts anything; quick, as no step is tried."""
    wrong = _Mistakes(str)
    with wrong:
        config = request.simulated(engine).config
        check_first(config, clients=True)
        from fl_dp.launch import preflight  # late: as above

        preflight.preflight(config, clients=True, each=wrong)
    return wrong.found


def _check_task(config: RunConfig, wrong: _Mistakes) -> list[str]:
    """Collect everything in task, data and model that training would refuse; returns notes about them."""
    from fl_dp.launch.validation import validate  # late: as above

    task = validate(config, config=config, test=config.server_evaluates)
    before = wrong.found
    for one in task.findings:
        if not any(known.endswith(one.what) for known in before):
            wrong.add(str(one))
    return task.notes
