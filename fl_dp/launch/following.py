"""Follows a run by reading its files, and needs no other access."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fl_dp.clean_text import clean_json
from fl_dp.config.files import DAMAGED, read_toml
from fl_dp.durable_files import is_held
from fl_dp.errors import ConfigError, LaunchError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.outcome import RunEnd, conclude
from fl_dp.launch.progress_reporter import KEPT
from fl_dp.launch.resumption import go_on_with
from fl_dp.reporting.console import RoundLines
from fl_dp.reporting.new_rounds import NewRounds
from fl_dp.reporting.progress import ProgressDisplay
from fl_dp.reporting.read_results import read_summary
from fl_dp.reporting.reports import OVER
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_progress import RunProgress, in_words

POLL_SECONDS = 0.5
_SETTLE_SECONDS = 1.0  # between a run's folder and its lock, or its lock and its summary


class FollowedRun:
    """One run, polled again and again. say: prints a line."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._rounds = NewRounds(folder.rounds)
        self._problems, self._lines = 0, RoundLines()
        self.progress = RunProgress()

    def look(self, display: ProgressDisplay) -> None:
        """Read what is new, and show it."""
        plan = _plan(self._folder)
        self.progress = replace(self.progress, rounds=plan.rounds, budget=plan.budget)
        records = self._rounds.new()
        lines = [f"passed over: {problem}" for problem in self._rounds.problems[self._problems :]]
        self._problems = len(self._rounds.problems)
        if records and not self.progress.over and self._rounds.left_out:
            lines.append(f"... {self._rounds.left_out} rounds before")
        for record in records:
            self.progress = self.progress.after(record)
            lines.append(self._lines.of(record, plan.rounds, plan.budget or 0.0))
        if lines:
            with display.aside():
                self._say("\n".join(lines))
        self.progress = replace(self.progress, **_doing(self._folder, self.progress.over))

    def is_over(self, display: ProgressDisplay) -> bool:
        """Read what is new; return whether the run has ended. LaunchError if it died without a result."""
        self.look(display)
        if self._over():
            return True
        if self._alive():
            return False
        display.close()
        time.sleep(_SETTLE_SECONDS)
        if not self._over() and not self._alive():
            self.look(display)
            raise self._dead()
        return self._over()

    def _over(self) -> bool:
        """Whether the run has ended normally, or has failed and no process works on it."""
        if not self._folder.summary.exists():
            return False
        return read_summary(self._folder.summary)["status"] in OVER or not self._alive()

    def _alive(self) -> bool:
        """Whether a process works on the run. It holds a lock, which the system releases when it dies."""
        return any(is_held(lock) for lock in (self._folder.lock, self._folder.server_lock))

    def _dead(self) -> LaunchError:
        """The error for a run that no process works on, and that never said how it ended."""
        return LaunchError(
            f"{self._folder.shown}: no process is at work on this run, and it has no result: its server was "
            f"killed, or its machine stopped, after {self.progress.over} of {self.progress.rounds} rounds. "
            f"Go on with: {go_on_with(self._folder)}"
        )

    def result(self) -> ExitCode:
        """Say how the run ended; returns its exit code, or raises LaunchError if it failed."""
        return conclude(RunEnd(completed=True), self._folder, self._say, watched=True)


def check_watchable(folder: RunFolder) -> None:
    """Raise ConfigError, with what to do, if the folder holds no run."""
    if not folder.path.is_dir():
        raise ConfigError(f"{folder.shown}: no such folder; name that of a run, which its first lines tell.")
    if not os.access(folder.path, os.R_OK | os.X_OK) or _unreadable(folder):
        raise ConfigError(f"{folder.shown}: its files cannot be read; ask who runs it to let you.")
    if not folder.config.exists():
        inside = sorted(one.parent for one in folder.path.glob("*/config.toml"))
        newest = f"; the newest below it is {RunFolder(inside[-1]).shown}" if inside else ""
        raise ConfigError(f"{folder.shown}: holds no run, it has no {folder.config.name}{newest}.")


def _unreadable(folder: RunFolder) -> list[str]:
    files = (folder.config, folder.lock, folder.server_lock, folder.rounds, folder.summary)
    return [file.name for file in files if file.exists() and not os.access(file, os.R_OK)]


def follow(folder: RunFolder, say: Callable[[str], None]) -> ExitCode:
    """Watch until the run is over; returns its exit code. LaunchError if it failed, or its server died."""
    run, display = FollowedRun(folder, say), ProgressDisplay()
    try:
        while not run.is_over(display):
            display.show(run.progress)
            time.sleep(POLL_SECONDS)
        run.look(display)  # what was written before the summary
    finally:
        display.close()
    return run.result()


def look_once(folder: RunFolder, say: Callable[[str], None]) -> ExitCode:
    """Print the run's state now; returns its exit code if it is over, else 0. LaunchError as in `follow`."""
    run = FollowedRun(folder, say)
    if run.is_over(ProgressDisplay(quiet=True)):
        return run.result()
    words = in_words(run.progress) or "between two rounds"
    say(f"{run.progress.over} of {run.progress.rounds} rounds are over; now: {words}")
    return ExitCode.TRAINED


def _plan(folder: RunFolder) -> RunProgress:
    """Rounds and budget of the run config, as far as it can be read: it may still be being written."""
    with suppress(ConfigError):
        found = read_toml(folder.config)
        rounds, epsilon = found.get("rounds"), found.get("epsilon")
        if type(rounds) is int and isinstance(epsilon, int | float):
            return RunProgress(rounds=rounds, budget=float(epsilon))
    return RunProgress()


def _doing(folder: RunFolder, over: int) -> Mapping[str, Any]:
    """What the run says it is doing now; empty if it does not say, or if that is already over."""
    nothing = {key: getattr(RunProgress(), key) for key in KEPT}
    try:
        found = clean_json(json.loads(folder.progress.read_bytes()))
    except (OSError, *DAMAGED):
        return nothing
    if not isinstance(found, dict) or any(not _fits(found.get(key), value) for key, value in nothing.items()):
        return nothing
    return nothing if 0 < found["server_round"] <= over else {key: found[key] for key in KEPT}


def _fits(found: Any, like: Any) -> bool:
    return type(found) is type(like) or (type(like) is float and type(found) is int)
