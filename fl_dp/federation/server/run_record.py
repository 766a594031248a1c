"""The files of a running run, from which alone it can be resumed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fl_dp.federation.server.disk_room import DiskRoom
from fl_dp.federation.server.state import STATE, ServerState, read_state, write_state
from fl_dp.reporting.provenance import utc_now
from fl_dp.reporting.reports import RoundReport
from fl_dp.reporting.run_results import RunResults, to_line

if TYPE_CHECKING:
    from fl_dp.federation.server.keep import Kept
    from fl_dp.federation.server.strategy import PrivateStrategy


def kept_state(folder: Path) -> ServerState | None:
    """The state of the run in `folder`; None if the run ended before any client was asked. ConfigError if it
    is damaged.
    """
    return read_state(folder / STATE) if (folder / STATE).exists() else None


class RunRecord:
    """Keeps a run's state and rounds.jsonl up to date.

    state: what the run resumes from; None if it starts from the beginning. on_kept: called with the number of
    the last round in the state, when the state is on the disk, but not yet the round's line. say: tells the
    operator what the run waits for.
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
            out.go_on_after(self.state.rounds if self.state else 0, self.state.line if self.state else "")
        self._out, self._on_kept = out, on_kept
        self.arrays = self.state.arrays if self.state else None  # the weights of the state on the disk
        self.kept: Kept | None = None  # the same state's model that is kept beside the last one, if any
        self._line = self.state.line if self.state else ""
        self._told = self.state.rounds if self.state else 0  # the last round with its line on the disk
        self.started = (self.state.started if self.state else "") or utc_now()
        self._began = time.monotonic() - (self.state.seconds if self.state else 0.0)

    @property
    def seconds(self) -> float:
        """How long the run has taken, without the time in which it was stopped."""
        return time.monotonic() - self._began

    def keep(self, strategy: "PrivateStrategy") -> None:
        """Save the run's state, with the clients that have registered, before any is asked for a round."""
        state = strategy.state(self._line, self.seconds, self.started)
        self.disk_room.write(lambda: write_state(self._out.path / STATE, state), "the run's state")
        if self.arrays is None:  # a resumed run already has the file
            flat = strategy.resolved().to_flat()
            self.disk_room.write(lambda: self._out.write_resolved(flat), "resolved.toml")
        self.arrays = state.arrays
        self.kept = strategy.kept
        self.make_room()

    def make_room(self) -> None:
        """Reserve disk space for the next round before any client pays for it; LaunchError if impossible."""
        if self.arrays is not None:
            model = sum(array.nbytes for array in self.arrays.values())
            self.disk_room.hold((self._out.path / STATE).stat().st_size, model)

    def round_over(self, strategy: "PrivateStrategy", report: RoundReport) -> None:
        """Save the round, the state first: a resumed run then adds the missing line."""
        self._line = to_line(report)
        self.keep(strategy)
        self._on_kept(report.round)
        self.disk_room.write(lambda: self._out.append_round(self._line), "rounds.jsonl")
        self._told = report.round
        self.make_room()

    def agree_with_disk(self, strategy: "PrivateStrategy") -> None:
        """Make lines and reports end with the state on the disk, if the run was ended within `round_over`.

        A round in the saved state gets its line. A round that is not in it counts as not finished.
        """
        reports = strategy.reports
        if not reports or reports[-1].round == self._told:
            return
        state = kept_state(self._out.path)
        kept = state.rounds if state else 0
        self._out.go_on_after(kept, state.line if state else "")
        if state and kept == reports[-1].round:  # the process may have been ended within `keep`
            self.arrays, self.kept = state.arrays, strategy.kept
        while reports and reports[-1].round > kept:
            reports.pop()

    def forget(self) -> None:
        """Delete the state of a finished run, which cannot be resumed, and with it the run's secret."""
        (self._out.path / STATE).unlink(missing_ok=True)
