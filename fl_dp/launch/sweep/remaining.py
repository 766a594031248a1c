"""What of a sweep is still to be done, and the command that does it."""

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.resumption import Launch
from fl_dp.launch.sweep.plan import PlannedRun, SweepFolder, SweepPlan
from fl_dp.launch.sweep.processes import Job
from fl_dp.launch.sweep.results import rows_of
from fl_dp.reporting.reports import OVER
from fl_dp.reporting.run_folder import RunFolder


def jobs_left(plan: SweepPlan, folder: SweepFolder, program: Sequence[str]) -> list[Job]:
    """A job for each run that is not over: begun anew, or resumed where it has begun.

    program: the words that stand for `fl-dp`. ConfigError for a run whose config is not the plan's.
    """
    rows = rows_of(plan, folder)
    return [_job(row.run, plan, folder, program) for row in rows if row.status not in OVER]


def _job(run: PlannedRun, plan: SweepPlan, folder: SweepFolder, program: Sequence[str]) -> Job:
    place, log = folder.run(run.name), folder.log(run.name)
    if place.launch.exists():
        _check_config(run, place.config)
        _check_launch(plan, place)
        return Job(run.name, [*program, "run", "--resume", str(place.path)], log)
    if place.config.exists():  # it ended before it wrote how it was launched: nothing was paid for
        shutil.rmtree(place.path)
    words = ["--simulate", "--config", str(folder.config(run.name)), "--out", str(place.path)]
    ledger = ["--ledger", plan.ledger] if plan.ledger else []
    vary = ["--vary-mechanism"] if plan.vary_mechanism else []
    return Job(run.name, [*program, "run", *words, *ledger, *vary], log)


def _check_launch(plan: SweepPlan, place: RunFolder) -> None:
    """ConfigError where the run would be paid for elsewhere, or under another rule, than was planned."""
    start = Launch.read(place)
    ledger = Path(plan.ledger).absolute() if plan.ledger else place.ledgers.absolute()
    if start.ledgers.absolute() != ledger or start.vary_mechanism != plan.vary_mechanism:
        raise ConfigError(
            f"{place.launch}: names another ledger, or another vary-mechanism, than the sweep was fixed "
            "with; put it back, or start another sweep."
        )


def _check_config(run: PlannedRun, file: Path) -> None:
    kept = dataclasses.replace(RunConfig.from_toml(file), out="").to_flat()
    wanted = {**run.config, "out": ""}
    for key in kept:
        if kept[key] != wanted[key]:
            raise ConfigError(
                f"{file}: has {key} = {kept[key]!r}; the sweep was fixed with {wanted[key]!r}. What is tried "
                "must not be changed; put it back, or start another sweep."
            )
