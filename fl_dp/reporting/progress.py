"""How far a run is, on standard error: bars on a terminal, in a pipe lines."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console
from rich.live import Live

from fl_dp.reporting.progress_lines import ProgressLines
from fl_dp.reporting.progress_view import rendered
from fl_dp.reporting.run_progress import RunProgress

_REFRESHES = 4  # a second


class ProgressDisplay:
    """Shows a `RunProgress` until it is closed. A terminal that cannot move its cursor gets lines, too."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        """console: standard error unless given. quiet: nothing anywhere."""
        console = console or Console(stderr=True)
        # rich draws in a notebook by ipywidgets, and warns where they are not
        notebook = console.is_jupyter and find_spec("ipywidgets") is not None
        drawn = notebook or (console.is_terminal and not console.is_dumb_terminal)
        self._progress = RunProgress()
        self._console = console
        self._live: Live | None = None  # a new one each time: a stopped one would erase lines of others
        self._draws = drawn and not quiet
        self._lines = None if quiet or drawn or console.is_jupyter else ProgressLines(console)

    def show(self, progress: RunProgress) -> None:
        self._progress = progress
        if self._draws and self._live is None:
            self._draw()
        if self._lines is not None:
            self._lines.show(progress)

    def known(self, words: str) -> None:
        """A pipe gets no line of these words."""
        if self._lines is not None:
            self._lines.said.add(words)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within it nothing is drawn: other lines may be printed."""
        drawn = self._live is not None
        self._erase()
        yield
        if drawn:
            self._draw()

    def close(self) -> None:
        """Erase what is drawn, and say no more; the next `show` begins again."""
        self._erase()
        if self._lines is not None:
            self._lines.close()

    def _erase(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        self._live = Live(
            console=self._console,
            get_renderable=lambda: rendered(self._progress, time.time()),
            refresh_per_second=_REFRESHES,
            transient=True,
            redirect_stdout=False,  # a program may read it
            redirect_stderr=False,
        )
        self._live.start(refresh=True)
