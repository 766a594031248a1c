"""Follows a run by reading its files, and needs no other access."""

import os
import time
from collections.abc import Callable

from fl_dp.errors import ConfigError, LaunchError
from fl_dp.launch.exit_codes import ExitCode
from fl_dp.launch.outcome import RunEnd, conclude
from fl_dp.launch.resumption import go_on_with, interrupted_words
from fl_dp.reporting.console import RoundLines
from fl_dp.reporting.progress import ProgressDisplay
from fl_dp.reporting.reports import INTERRUPTED, OVER
from fl_dp.reporting.run_files import FIRST, Run
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.run_progress import in_words

POLL_SECONDS = 0.5
_SETTLE_SECONDS = 1.0  # between a run's folder and its lock, or its lock and its summary


class Watched:
    """A run that is shown as it goes on. say: prints a line."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None]) -> None:
        self.run, self._say = Run(folder, first=FIRST), say
        self._problems, self._lines = 0, RoundLines()

    def look(self, display: ProgressDisplay) -> None:
        """Read what is new, and show it."""
        first = not self.run.progress.over
        records, plan = self.run.look(), self.run.progress
        lines = [f"skipped: {problem}" for problem in self.run.problems[self._problems :]]
        self._problems = len(self.run.problems)
        if records and first and self.run.left_out:
            lines.append(f"... {self.run.left_out} earlier rounds")
        lines += [self._lines.of(record, plan.rounds, plan.budget or 0.0) for record in records]
        if lines:
            with display.aside():
                self._say("\n".join(lines))

    def is_over(self, display: ProgressDisplay) -> bool:
        """Read what is new; return whether the run has ended. LaunchError if it died without a result."""
        self.look(display)
        if self._over():
            return True
        if self.run.at_work:
            return False
        display.close()
        time.sleep(_SETTLE_SECONDS)
        if not self._over() and not self.run.at_work:
            self.look(display)
            raise self._dead()
        return self._over()

    def _over(self) -> bool:
        """Whether the run has ended normally, or has failed and no process works on it."""
        status = self.run.status
        return status in OVER or (bool(status) and not self.run.at_work)

    def _dead(self) -> LaunchError:
        """The error for a run that no process works on, and that never said how it ended."""
        folder, progress = self.run.folder, self.run.progress
        return LaunchError(
            f"{folder.shown}: this run has no process and no result: it was ended, or its machine stopped, "
            f"after {progress.over} of {progress.rounds} rounds. Resume it with: "
            f"{go_on_with(folder)}"
        )

    def result(self) -> ExitCode:
        """Say how the run ended; returns its exit code. LaunchError if it failed by itself."""
        folder, summary = self.run.folder, self.run.summary() or {}
        if (summary.get("status"), summary.get("reason")) != ("failed", INTERRUPTED):
            return conclude(RunEnd(completed=True), folder, self._say, watched=True)
        self._say(interrupted_words(folder, summary.get("rounds", 0), self.run.progress.rounds))
        if folder.report.exists():
            self._say(f"report in {folder.shown / folder.report.name}")
        else:
            self._say(f"to write a report: fl-dp report {folder.shown}")
        return ExitCode.INTERRUPTED


def check_watchable(folder: RunFolder) -> None:
    """Raise ConfigError, with what to do, if the folder holds no run."""
    if not folder.path.is_dir():
        raise ConfigError(
            f"{folder.shown}: no such folder; name the folder of a run, which the run's first lines on the "
            "console name."
        )
    if not os.access(folder.path, os.R_OK | os.X_OK) or _unreadable(folder):
        raise ConfigError(f"{folder.shown}: its files cannot be read; ask its owner for permission.")
    if not folder.config.exists():
        inside = sorted(one.parent for one in folder.path.glob("*/config.toml"))
        newest = f"; the newest run below it is {RunFolder(inside[-1]).shown}" if inside else ""
        raise ConfigError(f"{folder.shown}: holds no run, as it has no {folder.config.name}{newest}.")


def _unreadable(folder: RunFolder) -> list[str]:
    files = (folder.config, folder.lock, folder.server_lock, folder.rounds, folder.summary)
    return [file.name for file in files if file.exists() and not os.access(file, os.R_OK)]


def follow(folder: RunFolder, say: Callable[[str], None]) -> ExitCode:
    """Watch until the run is over; returns its exit code. LaunchError if it failed, or its server died."""
    watched, display = Watched(folder, say), ProgressDisplay()
    try:
        while not watched.is_over(display):
            display.show(watched.run.progress)
            time.sleep(POLL_SECONDS)
        watched.look(display)  # what was written before the summary
    finally:
        display.close()
    return watched.result()


def look_once(folder: RunFolder, say: Callable[[str], None]) -> ExitCode:
    """Print the run's state now; returns its exit code if it is over, else 0. LaunchError as in `follow`."""
    watched = Watched(folder, say)
    if watched.is_over(ProgressDisplay(quiet=True)):
        return watched.result()
    progress = watched.run.progress
    words = in_words(progress) or "between two rounds"
    say(f"{progress.over} of {progress.rounds} rounds done; now: {words}")
    return ExitCode.TRAINED
