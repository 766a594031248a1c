"""The runs of a sweep as processes: a few at a time, each on its own cores, stopped together."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fl_dp.errors import ConfigError
from fl_dp.launch.environment import cores
from fl_dp.launch.processes import Processes

_POLL_SECONDS = 0.2
STOPPING_SECONDS = 30.0  # for a run to end its own processes and leave its folder resumable
_DIVIDED = hasattr(os, "sched_setaffinity")


@dataclass(frozen=True, slots=True)
class Job:
    """A command, and the file for its output."""

    name: str
    command: Sequence[str]
    log: Path


def jobs_of(text: str, runs: int, *, shared: bool, on_gpu: bool) -> int:
    """How many parallel runs `--jobs` means; ConfigError for what this machine cannot do.

    shared: all pay from one ledger, so they run one after the other: what a run may spend depends on those
    before it.
    """
    most = cores() if _DIVIDED else 1
    if text == "auto":
        return 1 if shared or on_gpu else max(1, min(most, runs))
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= most:
        why = f"this machine has {most} cores" if _DIVIDED else "this system cannot divide its cores"
        raise ConfigError(f"--jobs {text}: expected auto, or an integer from 1 to {most}: {why}.")
    if shared and number > 1:
        raise ConfigError(
            f"--jobs {text}: all runs pay from one ledger and run one after the other; leave the option out."
        )
    return number


def run_jobs(
    jobs: Sequence[Job],
    at_once: int,
    env: Mapping[str, str],
    *,
    started: Callable[[Job], object],
    ended: Callable[[Job, int, float], object],
) -> None:
    """Run all jobs, `at_once` at a time. A failed job ends no other.

    ended: called with a job, its exit code and its seconds. KeyboardInterrupt interrupts the running jobs,
    waits until they have cleaned up, and is raised again.
    """
    free, running = _shares(at_once), dict[str, tuple[Job, frozenset[int], float]]()
    with Processes() as processes:

        def collect(ended: Callable[[Job, int, float], object]) -> None:
            """Report the jobs that have ended since; wait a moment if none has."""
            over = {name: code for name in running if (code := processes.exit_code(name)) is not None}
            if not over:
                time.sleep(_POLL_SECONDS)
            for name, code in over.items():
                job, share, since = running.pop(name)
                free.append(share)
                ended(job, code, time.monotonic() - since)

        try:
            for job in jobs:
                while not free:
                    collect(ended)
                started(job)
                share = free.pop(0)
                with _on(share):
                    processes.start(job.name, job.command, env, job.log)
                running[job.name] = job, share, time.monotonic()
            while running:
                collect(ended)
        except KeyboardInterrupt:
            for name in running:
                processes.interrupt(name)
            deadline = time.monotonic() + STOPPING_SECONDS
            while running and time.monotonic() < deadline:
                collect(lambda *_: None)
            raise


def _shares(number: int) -> list[frozenset[int]]:
    """Split this process's cores into `number` parts; the parts are empty if they cannot be split."""
    if not _DIVIDED:
        return [frozenset()] * number
    ours = sorted(os.sched_getaffinity(0))
    return [frozenset(ours[part::number]) for part in range(number)]


@contextmanager
def _on(share: frozenset[int]) -> Iterator[None]:
    """Pin whatever this thread starts in the block to these cores: Ray and torch count no others."""
    if not share:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, share)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
