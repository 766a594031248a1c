"""A sweep from its file to its tables: fixed, started, resumed, shown."""

import os
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fl_dp.config.run import RunConfig
from fl_dp.durable_files import exclusive, private_folder
from fl_dp.errors import AtWorkError, ConfigError, DataError, FlDpError, ModelError, TaskError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.preflight import (
    check_budget,
    check_choices,
    check_names,
    check_server,
    split,
    with_absolute_paths,
)
from fl_dp.launch.processes import tail
from fl_dp.launch.resumption import Launch
from fl_dp.launch.sweep.costs import SweepCost, cost_of, timings_of
from fl_dp.launch.sweep.jobs import Job, jobs_of, run_jobs
from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.results import (
    Row,
    cost_on_page,
    footer,
    print_results,
    result_line,
    rows_of,
    total_epsilon,
    write_csv,
    write_page,
)
from fl_dp.launch.sweep.sweep_file import RequestedRun, SweepRequest
from fl_dp.launch.sweep.words import announce, check_affordable, needs_ledger, time_words
from fl_dp.reporting.reports import OVER
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.wording import counted, duration, rough_duration

Say = Callable[[str], None]
RunJobs = Callable[..., None]  # `run_jobs`, or a test's substitute
_AT_WORK = "another process is at work on this sweep"


def planned(request: SweepRequest, ledger: Path | None) -> tuple[list[RequestedRun], SweepPlan, SweepCost]:
    """Check every run, and forecast the costs. ConfigError if private data have no ledger."""
    runs = checked(request.runs)
    public = request.public or all(one.public for one in runs)
    if not public and ledger is None:
        raise needs_ledger(runs)
    shared = None if ledger is None else ledger.expanduser().absolute()
    cost = cost_of(runs, shared, vary=request.vary_mechanism)
    named = "" if shared is None else str(shared)
    return runs, SweepPlan.of(runs, cost, public=public, ledger=named, vary=request.vary_mechanism), cost


def checked(runs: Sequence[RequestedRun]) -> list[RequestedRun]:
    """The runs with absolute paths and client sizes, checked against everything that a launch refuses.

    FlDpError, of the same kind, names the run. The model is tried once for all seeds of a point, as its
    layers are the same.
    """
    found: list[RequestedRun] = []
    for run in runs:
        try:
            found.append(_checked(run, tried=run.point in [one.point for one in found]))
        except FlDpError as error:
            # a kind that the command line knows and that can be made from a message alone
            known = (kind for kind in (DataError, ModelError, TaskError) if isinstance(error, kind))
            raise next(known, ConfigError)(f"{run.name}: {error}") from error
    return found


def _checked(run: RequestedRun, *, tried: bool) -> RequestedRun:
    from fl_dp.federation.client.registration import is_public

    check_names(run.config)
    check_choices(run.config)
    config = with_absolute_paths(run.config)
    if not tried:
        check_server(config)
    parts = split(config)
    check_budget(config, max(parts.sizes))
    notes = (*run.notes, *parts.notes)
    return replace(
        run, config=config, sizes=parts.sizes, public=is_public(config), notes=notes, seconds=parts.seconds
    )


def tell(runs: Sequence[RequestedRun], plan: SweepPlan, cost: SweepCost, say: Say) -> None:
    """Say what the sweep would do and cost; ConfigError if it cannot be started."""
    announce(runs, plan, cost, say)
    usual = cost
    if not cost.exactly:
        ledger = Path(plan.ledger) if plan.ledger else None
        usual = cost_of(runs, ledger, vary=plan.vary_mechanism, usual=True)
    check_affordable(runs, plan, usual)


def tell_time(runs: Sequence[RequestedRun], plan: SweepPlan, jobs: str, say: Say) -> None:
    """Say how long the sweep would take; its steps are measured."""
    timings = timings_of(runs, Path(plan.ledger) if plan.ledger else None)
    if timings:
        say(time_words(timings, _at_once(plan, jobs)))


def start(
    plan: SweepPlan, out: Path, jobs: str, program: Sequence[str], say: Say, *, run: RunJobs = run_jobs
) -> ExitCode:
    """Fix the sweep in the folder `out`, then run it; ConfigError if `out` holds one already."""
    at_once = _at_once(plan, jobs)
    folder = _claim(out)
    with exclusive(folder.lock, _AT_WORK):
        plan.write(folder)
        say(f"fixed in {folder.shown / folder.plan.name}, digest {plan.digest()[:16]}")
        return _Sweep(plan, folder, say, at_once).run(program, run)


def resume(
    path: Path,
    asked: SweepPlan | None,
    jobs: str,
    program: Sequence[str],
    say: Say,
    *,
    run: RunJobs = run_jobs,
) -> ExitCode:
    """Resume the sweep in the folder. asked: what its file asks for now, if one was named.

    ConfigError if that is another sweep than the one that was fixed.
    """
    folder = SweepFolder(path.absolute())
    plan = SweepPlan.read(folder)
    if asked is not None:
        plan.check_same(asked)
    at_once = _at_once(plan, jobs)
    with exclusive(folder.lock, _AT_WORK):
        return _Sweep(plan, folder, say, at_once).run(program, run)


def show(path: Path, say: Say) -> None:
    """Print the table of a sweep in any state; unless it is running, also write CSV and report."""
    folder = SweepFolder(path.absolute())
    sweep = _Sweep(SweepPlan.read(folder), folder, say)
    try:
        with exclusive(folder.lock):
            sweep.conclude()
    except AtWorkError:
        sweep.print_rows(write=False)
        say("the sweep is running; results.csv and report.html are written when it ends")


def _claim(out: Path) -> SweepFolder:
    folder = SweepFolder(out.absolute())
    try:
        private_folder(folder.path)
        folder.plan.open("x").close()
    except FileExistsError:
        raise ConfigError(
            f"--out {out}: already holds a sweep; resume it with --resume {out}, or name another folder."
        ) from None
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}.") from None
    return folder


def _at_once(plan: SweepPlan, jobs: str) -> int:
    from fl_dp.federation.devices import find_device

    devices = {str(run.config["device"]) for run in plan.runs}
    on_gpu = any(find_device(device).type != "cpu" for device in devices)
    return jobs_of(jobs, len(plan.runs), shared=bool(plan.ledger), on_gpu=on_gpu)


@dataclass(slots=True)
class _Sweep:
    """A sweep in its folder. at_once: parallel runs; seconds: of finished runs; left: the others."""

    plan: SweepPlan
    folder: SweepFolder
    say: Say
    at_once: int = 1
    left: int = 0
    seconds: list[float] = field(default_factory=list)

    def run(self, program: Sequence[str], run: RunJobs) -> ExitCode:
        """Run what is left of it. program: the command line for `fl-dp`."""
        self.folder.write_configs(self.plan)
        private_folder(self.folder.path / "logs")  # a run's console may quote a site's settings
        rows = rows_of(self.plan, self.folder)
        jobs = [self._job(row.run, program) for row in rows if row.status not in OVER]
        self.left, over = len(jobs), len(rows) - len(jobs)
        done = f", {counted(over, 'run')} over" if over else ""
        self.say(f"{counted(len(jobs), 'run')} to do{done}; {self.at_once} at a time")
        try:
            run(jobs, self.at_once, dict(os.environ), started=self._started, ended=self._ended)
        except KeyboardInterrupt:
            self.say(f"\nstopped; to resume: fl-dp sweep --resume {self.folder.shown}")
            self.conclude()
            raise
        return self.conclude()

    def _job(self, run: PlannedRun, program: Sequence[str]) -> Job:
        """The run, new, or resumed if it has begun; ConfigError if its config is not the plan's."""
        place, log = self.folder.run(run.name), self.folder.log(run.name)
        if place.launch.exists():
            _check_config(run, place.config)
            _check_launch(self.plan, place)
            return Job(run.name, [*program, "run", "--resume", str(place.path)], log)
        if place.config.exists():  # it ended before it wrote how it was launched, so nothing was paid for
            shutil.rmtree(place.path)
        words = ["--simulate", "--config", str(self.folder.config(run.name)), "--out", str(place.path)]
        ledger = ["--ledger", self.plan.ledger] if self.plan.ledger else []
        vary = ["--vary-mechanism"] if self.plan.vary_mechanism else []
        return Job(run.name, [*program, "run", *words, *ledger, *vary], log)

    def _started(self, job: Job) -> None:
        self.say(f"{self._place(job)} started")

    def _ended(self, job: Job, code: int, seconds: float) -> None:
        self.left -= 1
        self.seconds.append(seconds)
        if code not in (ExitCode.TRAINED, ExitCode.BUDGET_EXHAUSTED):
            self.say(f"{self._place(job)} FAILED (exit code {code}); the end of {job.log}:")
            self.say(tail(job.log))
            return
        row = next(row for row in rows_of(self.plan, self.folder) if row.run.name == job.name)
        to_go = statistics.median(self.seconds) * self.left / self.at_once
        remaining = f"; about {rough_duration(to_go)} left" if self.left else ""
        self.say(f"{self._place(job)} {result_line(row)}, {duration(seconds)}{remaining}")

    def _place(self, job: Job) -> str:
        number = [run.name for run in self.plan.runs].index(job.name) + 1
        return f"[{number}/{len(self.plan.runs)}] {job.name}"

    def print_rows(self, *, write: bool) -> list[Row]:
        """Print a table of the results so far, and what choosing from them costs. write: results.csv too."""
        rows = rows_of(self.plan, self.folder)
        print_results(self.plan, rows)
        if write:
            write_csv(self.plan, rows, self.folder)
        self.say(footer(self.plan, rows, total_epsilon(self.plan, self.folder)))
        return rows

    def conclude(self) -> ExitCode:
        """Write tables, CSV and report of the results; returns the exit code for how the sweep ended."""
        rows = self.print_rows(write=True)
        self.say(f"results in {self.folder.shown / self.folder.csv.name}")
        done = [self.folder.run(row.run.name) for row in rows if row.rounds]
        if done:
            self.say(write_page(done, self.folder, cost_on_page(self.plan, rows, self.folder)))
        states = {row.status for row in rows}
        if states == {"completed"}:
            return ExitCode.TRAINED
        return ExitCode.BUDGET_EXHAUSTED if states <= set(OVER) else ExitCode.FAILED


def _check_launch(plan: SweepPlan, place: RunFolder) -> None:
    """Raise ConfigError if the run would be paid for elsewhere, or under another rule, than was planned."""
    start = Launch.read(place)
    ledger = Path(plan.ledger).absolute() if plan.ledger else place.ledgers.absolute()
    if start.ledgers.absolute() != ledger or start.vary_mechanism != plan.vary_mechanism:
        raise ConfigError(
            f"{place.launch}: has another ledger or another vary-mechanism than the sweep was fixed with; "
            "restore it, or start another sweep."
        )


def _check_config(run: PlannedRun, file: Path) -> None:
    kept = replace(RunConfig.from_toml(file), out="").to_flat()
    wanted = {**run.config, "out": ""}
    for key in kept:
        if kept[key] != wanted[key]:
            raise ConfigError(
                f"{file}: has {key} = {kept[key]!r}; the sweep was fixed with {wanted[key]!r}. What is "
                "tried must not change; restore it, or start another sweep."
            )
