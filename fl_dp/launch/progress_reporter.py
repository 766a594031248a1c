"""Reports what a run is doing, on this console."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.launch.outcome import write_report
from fl_dp.launch.resumption import check_unfinished, interrupted_words
from fl_dp.reporting.console import RoundLines
from fl_dp.reporting.progress import ProgressDisplay, RunProgress
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder

Say = Callable[[str], None]


class ProgressReporter:
    """Reports on one run: first the preparations, then the rounds.

    say: prints a line of a run's results. quiet: nothing else is shown. lasting: whether the run's
    records and task outlive this process, so that it can be resumed. folder: the run's, once it has one.
    """

    def __init__(self, say: Say, *, quiet: bool = False, lasting: bool = True) -> None:
        self._say, self._lasting = say, lasting
        self._display, self._quiet = ProgressDisplay(quiet=quiet), quiet
        self._progress, self._lines = RunProgress(), RoundLines()
        self.folder: RunFolder | None = None

    def say(self, text: str) -> None:
        """Print a line of the run's results beside the progress bars."""
        with self._display.aside():
            self._say(text)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Pause drawing, so that others may print."""
        with self._display.aside():
            yield

    def run(self, config: RunConfig, folder: RunFolder, over: int = 0) -> None:
        """Note that the run has a folder now, and how many of its rounds are over."""
        self.folder = folder
        self._tell(replace(self._progress, rounds=config.rounds, budget=config.epsilon, over=over))

    def doing(self, words: str, *, said: bool = False) -> None:
        """said: whether a line about it was printed already; a pipe then gets no second one."""
        if said:
            self._display.known(words)
        self._tell(self._progress.now(words))

    @property
    def rounds_over(self) -> int:
        return self._progress.over

    def asked(self, server_round: int, clients: int) -> None:
        """`clients` more have been asked for this round."""
        progress = self._progress
        if progress.server_round != server_round:
            progress = progress.in_round(server_round, 0)
        self._tell(replace(progress, asked=progress.asked + clients))

    def answered(self, clients: int) -> None:
        """`clients` more have answered."""
        self._tell(replace(self._progress, answered=self._progress.answered + clients))

    def worked(self, over: int, speed: float) -> None:
        """In a simulated round, `over` clients are done, at `speed` records a second."""
        self._tell(replace(self._progress, answered=over, speed=speed))

    def round_over(self, report: RoundReport) -> None:
        """Print the round's line, too, with the time left where no bar shows it."""
        self._tell(self._progress.after(report))
        self.say(self._lines.of(report, self._progress.rounds) + self._display.left())

    def end(self) -> None:
        """Stop drawing: the run is over, or could not begin."""
        self._display.close()

    def interrupted(self) -> None:
        """Say what is paid for and how to resume the run, if there is one to resume; draw its page."""
        if self.folder is None:
            return
        with suppress(ConfigError):  # the run is over, and there is nothing to resume
            check_unfinished(self.folder)
            over, rounds = self._progress.over, self._progress.rounds
            self.say(interrupted_words(self.folder, over, rounds, lasting=self._lasting))
            summary = Run(self.folder).summary()
            if summary and not self._quiet:
                write_report(self.folder, self.say, private=summary.private)

    def _tell(self, progress: RunProgress) -> None:
        self._progress = progress
        self._display.show(progress)


@contextmanager
def reporting_progress(say: Say, *, quiet: bool = False, lasting: bool = True) -> Iterator[ProgressReporter]:
    """A `ProgressReporter` for the duration of a launch."""
    tell = ProgressReporter(say, quiet=quiet, lasting=lasting)
    try:
        yield tell
    except KeyboardInterrupt:
        tell.interrupted()
        raise
    finally:
        tell.end()
