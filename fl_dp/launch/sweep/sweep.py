"""A sweep from its file to its tables: fixed, started, resumed, shown."""

import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from fl_dp.durable_files import exclusive, private_folder
from fl_dp.errors import AtWorkError, ConfigError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.processes.log_tail import tail
from fl_dp.launch.sweep.checking import CheckedRun, check_runs
from fl_dp.launch.sweep.costs import SweepCost, cost_of
from fl_dp.launch.sweep.page import write_page
from fl_dp.launch.sweep.plan import SweepFolder, SweepPlan
from fl_dp.launch.sweep.processes import Ended, Job, jobs_of, run_jobs, went_well
from fl_dp.launch.sweep.remaining import jobs_left
from fl_dp.launch.sweep.request import SweepRequest
from fl_dp.launch.sweep.results import Row, rows_of, total_epsilon
from fl_dp.launch.sweep.table import print_results, write_csv
from fl_dp.launch.sweep.words import announce, check_affordable, footer, needs_ledger, result_line
from fl_dp.reporting.reports import OVER
from fl_dp.reporting.wording import counted, duration, rough_duration

Say = Callable[[str], None]
RunJobs = Callable[..., None]  # `run_jobs`, or what tests put in its place


def planned(request: SweepRequest, ledger: Path | None) -> tuple[list[CheckedRun], SweepPlan, SweepCost]:
    """Look at every run, and foresee the costs. ConfigError where private data have no ledger."""
    runs = check_runs(request.runs)
    public = request.public or all(one.public for one in runs)
    if not public and ledger is None:
        raise needs_ledger(runs)
    shared = None if ledger is None else ledger.expanduser().absolute()
    cost = cost_of(runs, shared, shared=shared is not None, vary=request.vary_mechanism)
    plan = SweepPlan.of(
        runs, cost, public=public, ledger="" if shared is None else str(shared), vary=request.vary_mechanism
    )
    return runs, plan, cost


def tell(runs: Sequence[CheckedRun], plan: SweepPlan, cost: SweepCost, say: Say) -> None:
    """Say what the sweep would do and cost; ConfigError where it cannot be started."""
    announce(runs, plan, cost, say)
    usual = cost
    if not cost.exactly:
        ledger = Path(plan.ledger) if plan.ledger else None
        usual = cost_of(runs, ledger, shared=ledger is not None, vary=plan.vary_mechanism, usual=True)
    check_affordable(runs, plan, usual)


def start(
    plan: SweepPlan, out: Path, jobs: str, program: Sequence[str], say: Say, *, run: RunJobs = run_jobs
) -> ExitCode:
    """Fix the sweep in the folder `out`, then run it; ConfigError where `out` holds one already."""
    at_once = _at_once(plan, jobs)
    folder = _claim(out)
    with exclusive(folder.lock, "another process is at work on this sweep"):
        plan.write(folder)
        say(f"fixed in {folder.shown / folder.plan.name}, digest {plan.digest()[:16]}")
        return _run(plan, folder, at_once, program, say, run)


def resume(
    path: Path,
    asked: SweepPlan | None,
    jobs: str,
    program: Sequence[str],
    say: Say,
    *,
    run: RunJobs = run_jobs,
) -> ExitCode:
    """Go on with the sweep in the folder. asked: what its file asks for now, if one was named.

    ConfigError where that is another sweep than the one that was fixed.
    """
    folder = SweepFolder(path.absolute())
    plan = SweepPlan.read(folder)
    if asked is not None:
        plan.check_same(asked)
    at_once = _at_once(plan, jobs)
    with exclusive(folder.lock, "another process is at work on this sweep"):
        return _run(plan, folder, at_once, program, say, run)


def show(path: Path, say: Say) -> None:
    """Print the table of a sweep, whatever its state; write CSV and report unless it is being run."""
    folder = SweepFolder(path.absolute())
    plan = SweepPlan.read(folder)
    try:
        with exclusive(folder.lock):
            _conclude(plan, folder, say)
    except AtWorkError:
        rows = rows_of(plan, folder)
        print_results(plan, rows)
        say(footer(plan, rows, total_epsilon(plan, folder)))
        say("the sweep is running; results.csv and report.html are written when it ends")


def _claim(out: Path) -> SweepFolder:
    folder = SweepFolder(out.absolute())
    try:
        private_folder(folder.path)
        folder.plan.open("x").close()
    except FileExistsError:
        raise ConfigError(
            f"--out {out}: already holds a sweep; go on with it by --resume {out}, or name another folder."
        ) from None
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from None
    return folder


def _at_once(plan: SweepPlan, jobs: str) -> int:
    from fl_dp.federation.devices import find_device

    devices = {str(run.config["device"]) for run in plan.runs}
    on_gpu = any(find_device(device).type != "cpu" for device in devices)
    return jobs_of(jobs, len(plan.runs), shared=bool(plan.ledger), on_gpu=on_gpu)


def _run(
    plan: SweepPlan, folder: SweepFolder, at_once: int, program: Sequence[str], say: Say, run: RunJobs
) -> ExitCode:
    folder.write_configs(plan)
    private_folder(folder.path / "logs")  # a run's console may quote settings of a site
    jobs = jobs_left(plan, folder, program)
    over = len(plan.runs) - len(jobs)
    done = f", {counted(over, 'run')} over" if over else ""
    say(f"{counted(len(jobs), 'run')} to do{done}; {at_once} at a time")
    lines = _JobLines(plan, folder, len(jobs), at_once, say)
    try:
        run(jobs, at_once, dict(os.environ), started=lines.started, ended=lines.ended)
    except KeyboardInterrupt:
        say(f"\nstopped; go on by: fl-dp sweep --resume {folder.shown}")
        _conclude(plan, folder, say)
        raise
    return _conclude(plan, folder, say)


class _JobLines:
    """A line when a run starts and when it ends, with the time that is left."""

    def __init__(self, plan: SweepPlan, folder: SweepFolder, left: int, at_once: int, say: Say) -> None:
        self._numbers = {run.name: number for number, run in enumerate(plan.runs, 1)}
        self._plan, self._folder, self._left, self._at_once, self._say = plan, folder, left, at_once, say
        self._seconds: list[float] = []

    def started(self, job: Job) -> None:
        self._say(f"{self._number(job)} started")

    def ended(self, end: Ended) -> None:
        self._left -= 1
        self._seconds.append(end.seconds)
        if not went_well(end.code):
            self._say(f"{self._number(end.job)} FAILED (exit code {end.code}); the end of {end.job.log}:")
            self._say(tail(end.job.log))
            return
        row = next(row for row in rows_of(self._plan, self._folder) if row.run.name == end.job.name)
        self._say(f"{self._number(end.job)} {result_line(row)}, {duration(end.seconds)}{self._remaining()}")

    def _number(self, job: Job) -> str:
        return f"[{self._numbers[job.name]}/{len(self._numbers)}] {job.name}"

    def _remaining(self) -> str:
        if not self._left:
            return ""
        seconds = statistics.median(self._seconds) * self._left / self._at_once
        return f"; about {rough_duration(seconds)} left"


def _conclude(plan: SweepPlan, folder: SweepFolder, say: Say) -> ExitCode:
    """Tables, CSV and report of what is there; the exit code that says how all of it ended."""
    rows = rows_of(plan, folder)
    print_results(plan, rows)
    write_csv(plan, rows, folder)
    say(footer(plan, rows, total_epsilon(plan, folder)))
    say(f"results in {folder.shown / folder.csv.name}")
    done = [folder.run(row.run.name) for row in rows if row.rounds]
    if done:
        say(write_page(done, folder))
    return _exit_code(rows)


def _exit_code(rows: Sequence[Row]) -> ExitCode:
    found = {row.status for row in rows}
    if found == {"completed"}:
        return ExitCode.TRAINED
    return ExitCode.BUDGET_EXHAUSTED if found <= set(OVER) else ExitCode.FAILED
