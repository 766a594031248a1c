"""The files of a running run, from which alone it can be resumed, and the disk space for them."""

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fl_dp.errors import LaunchError
from fl_dp.federation.server.state import STATE, RunState, read_state, write_state
from fl_dp.reporting.provenance import utc_now
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_results import RunResults

if TYPE_CHECKING:
    from fl_dp.federation.server.keep import Kept
    from fl_dp.federation.server.strategy import PrivateStrategy


Result = TypeVar("Result")
logger = logging.getLogger("fl_dp")

FILE = ".reserve"
WAIT_SECONDS = 600.0
_POLL_SECONDS = 1.0
_SHORT = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
_BESIDE = 2**22  # bytes for all but models: a round's line, the summary, the page, logs


class DiskRoom:
    """Space for a run's state and results, reserved before sites are asked to pay for a round.

    A preallocated file in the run's folder holds it. If space or open files run out, the server waits for a
    while, so that a round that was paid for is not lost with the run. say: tells the operator.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda words: None) -> None:
        self._file, self._say = folder / FILE, say
        self._given_up = False

    def hold(self, state: int, model: int) -> None:
        """Reserve space for the next state, two models and the rest; waits until there is enough.

        state: bytes of the last state, which may double when server optimizers begin to keep moments.
        """
        size = 2 * state + 2 * model + _BESIDE
        self.write(lambda: self._take(size), f"{size / 2**20:.0f} MiB that the run's results may need")

    def write(self, work: Callable[[], Result], what: str) -> Result:
        """Call `work`, which writes `what`, and return its result.

        On a full disk it releases the reserved space, then waits for more. LaunchError if there is none
        within WAIT_SECONDS; later calls do not wait.
        """
        deadline, told = time.monotonic() + WAIT_SECONDS, False
        while True:
            try:
                return work()
            except (OSError, RuntimeError) as error:
                short = _shortage(error)
                if short is None:
                    raise
                if self._file.exists():
                    self.release()
                    continue
                if self._given_up or time.monotonic() > deadline:
                    self._given_up = True
                    raise LaunchError(
                        f"{self._file.parent}: no room for {what}: {short}. Make room, then continue after "
                        "the last round with --resume."
                    ) from None
                if not told:
                    told, words = True, f"{self._file.parent}: waiting for room for {what}: {short}"
                    logger.warning("%s", words)
                    self._say(words)
                time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        self._file.unlink(missing_ok=True)

    def _take(self, size: int) -> None:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(descriptor).st_size < size:
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            self.release()  # a partial reservation is useless, and others may need the space
            raise
        finally:
            os.close(descriptor)


def _shortage(error: BaseException) -> str | None:
    """What ran out; None for another error. torch wraps the OSError in an error of its own."""
    cause = error if isinstance(error, OSError) else error.__context__
    if isinstance(cause, OSError) and cause.errno in _SHORT:
        return os.strerror(cause.errno)
    return None


def kept_state(folder: Path) -> RunState | None:
    """The run's state in `folder`; None if no client was asked yet. ConfigError if it is damaged."""
    return read_state(folder / STATE) if (folder / STATE).exists() else None


class RunRecord:
    """Keeps a run's state and rounds.jsonl up to date.

    state: the one on the disk, from which a run resumes; None before the first. on_kept: called when a state
    is on the disk, and its last round's line is not yet, with that round's number. say: tells the operator
    what the run waits for.
    """

    def __init__(
        self,
        out: RunResults,
        *,
        resumed: bool,
        on_kept: Callable[[int], None] = lambda server_round: None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.disk_room = DiskRoom(out.path, say)
        self.state = kept_state(out.path) if resumed else None
        if self.state and self.state.rounds:
            on_kept(self.state.rounds)  # the run may have ended before this was called
        if resumed:
            out.go_on_after(self.state.last if self.state else None)
        self._out, self._on_kept = out, on_kept
        self.kept: Kept | None = None  # the same state's model that is kept beside the last one, if any
        self._told = self.state.rounds if self.state else 0  # the last round with its line on the disk
        self.started = (self.state.started if self.state else "") or utc_now()
        self._began = time.monotonic() - (self.state.seconds if self.state else 0.0)

    @property
    def seconds(self) -> float:
        """How long the run has taken, without the time in which it was stopped."""
        return time.monotonic() - self._began

    def keep(self, strategy: "PrivateStrategy") -> None:
        """Save the run's state, with the clients that have registered, before any is asked for a round."""
        state = strategy.state(self.seconds, self.started)
        self.disk_room.write(lambda: write_state(self._out.path / STATE, state), "the run's state")
        if self.state is None:  # a resumed run already has the file
            flat = strategy.resolved().to_flat()
            self.disk_room.write(lambda: self._out.write_resolved(flat), "resolved.toml")
        self.state, self.kept = state, strategy.kept
        self.make_room()

    def make_room(self) -> None:
        """Reserve disk space for the next round before any client pays for it; LaunchError if impossible."""
        if self.state is not None:
            model = sum(array.nbytes for array in self.state.arrays.values())
            self.disk_room.hold((self._out.path / STATE).stat().st_size, model)

    def round_over(self, strategy: "PrivateStrategy", report: RoundReport) -> None:
        """Save the round, the state first: a resumed run then adds the missing line."""
        self.keep(strategy)
        self._on_kept(report.round)
        self.disk_room.write(lambda: self._out.append_round(report.line), "rounds.jsonl")
        self._told = report.round
        self.make_room()

    def agree_with_disk(self, strategy: "PrivateStrategy") -> None:
        """Make lines and reports end with the state on the disk, if the run ended within `round_over`.

        A round in the saved state gets its line. Any other round counts as not finished.
        """
        reports = strategy.reports
        if not reports or reports[-1].round == self._told:
            return
        state = kept_state(self._out.path)
        kept = state.rounds if state else 0
        self._out.go_on_after(state.last if state else None)
        if state and kept == reports[-1].round:  # the process may have been ended within `keep`
            self.state, self.kept = state, strategy.kept
        while reports and reports[-1].round > kept:
            reports.pop()

    def forget(self) -> None:
        """Delete the state of a finished run, which cannot be resumed, and with it the run's secret."""
        (self._out.path / STATE).unlink(missing_ok=True)
