"""A launcher that writes what a run would leave, and runs that were looked at without looking at data."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fl_dp.config.run import RunConfig
from fl_dp.launch.sweep.jobs import Job
from fl_dp.launch.sweep.plan import SweepFolder
from fl_dp.launch.sweep.sweep_file import RequestedRun


def looked_at(
    name: str = "a", *, sizes: Sequence[int] = (700, 700), public: bool = False, **config: Any
) -> RequestedRun:
    """A run that was looked at, without looking at data."""
    whole = RunConfig(**{"rounds": 2, "data": "npz:/data/x.npz", **config})
    return RequestedRun(f"{name},seed={whole.seed}", name, whole.seed, {}, whole, (), tuple(sizes), public)


class Launcher:
    """In place of processes: writes the folder of a run. stop_after: jobs, then Ctrl-C; failing: a name."""

    def __init__(self, folder: SweepFolder, stop_after: int = 99, failing: str = "") -> None:
        self.folder, self.stop_after, self.failing = folder, stop_after, failing
        self.jobs: list[Job] = []

    def __call__(
        self,
        jobs: Sequence[Job],
        at_once: int,
        env: Mapping[str, str],
        *,
        started: Callable[[Job], None],
        ended: Callable[[Job, int, float], None],
    ) -> None:
        for number, job in enumerate(jobs):
            self.jobs.append(job)
            started(job)
            if number == self.stop_after:
                leave(self.folder, job.name, None)
                raise KeyboardInterrupt
            job.log.write_text("error: cause\n" if job.name == self.failing else "fine\n")
            if job.name != self.failing:
                leave(self.folder, job.name, "completed")
            ended(job, 1 if job.name == self.failing else 0, 2.0)


def leave(folder: SweepFolder, name: str, status: str | None, **more: Any) -> None:
    """What a run leaves: one round, and a summary unless the status is None."""
    place = folder.run(name)
    place.path.mkdir(parents=True, exist_ok=True)
    place.config.write_text(folder.config(name).read_text() if folder.config(name).exists() else "")
    place.launch.write_text('engine = "ray"\nledgers = "ledgers"\nray-address = ""\n')
    client = {
        "status": "trained", "epsilon": 0.5, "accountant": "pld", "delta": 1e-5,
        "charges": [{"sample_rate": 0.1, "noise_multiplier": 4.0, "steps": 20}], "before": [],
    }  # fmt: skip
    found = {
        "private": True, "epsilon": 0.5, "delta": 1e-5, "accuracy": 0.75, "loss": 0.5, "seconds": 3.0,
        "metrics": {"accuracy": more.get("accuracy", 0.75)}, "clients": {"0": client}, **more,
    }  # fmt: skip
    place.rounds.write_text(json.dumps({"round": 1, **found}) + "\n")
    if status:
        place.summary.write_text(json.dumps({"status": status, "rounds": 2, **found}))
