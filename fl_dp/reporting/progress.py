"""Progress on standard error: bars of rounds, clients and budgets on a terminal, lines in a pipe."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fl_dp.clean_text import clean
from fl_dp.reporting.console import rounded_up
from fl_dp.reporting.reports import NOT_PRIVATE, RoundReport
from fl_dp.reporting.wording import counted, rough_duration

LATEST = 5  # rounds from which the remaining time is estimated
_REFRESHES = 4  # per second
LEAST_LEFT = 10.0  # seconds left that a round's line says
AGAIN_SECONDS = 30.0  # before the same thing is reported again
COUNT_SECONDS = 1.0  # between two lines that differ only in a number
TICK_SECONDS = 1.0
MOST_CLIENTS = 6  # with a bar of their own
_BAR_WIDTH, _NAME_WIDTH = 30, 20

Bar = tuple[str, float, float, str]  # a label, the value, its maximum, and both in words


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run.

    doing: in words, while no round is under way. rounds: planned; 0 if not known yet. budget: epsilon of the
    run config; None without a run. over: number of finished rounds. server_round: the current one, or 0.
    asked, answered: how many clients were asked in it, and have answered. speed: records a second, 0 if not
    known. since: start of the round or of the current work, Unix time. seconds: of the latest rounds. last:
    the report of the last round.
    """

    doing: str = ""
    rounds: int = 0
    budget: float | None = None
    over: int = 0
    server_round: int = 0
    asked: int = 0
    answered: int = 0
    speed: float = 0.0
    since: float = 0.0
    seconds: tuple[float, ...] = ()
    last: RoundReport | None = None

    def now(self, doing: str) -> Self:
        """The progress while no round is under way, and the run does this."""
        if doing == self.doing and not self.server_round:
            return self
        return replace(self, doing=doing, server_round=0, asked=0, answered=0, speed=0.0, since=time.time())

    def in_round(self, server_round: int, asked: int) -> Self:
        return replace(
            self, doing="", server_round=server_round, asked=asked, answered=0, speed=0.0, since=time.time()
        )

    def after(self, report: RoundReport) -> Self:
        seconds = (*self.seconds, report.seconds)[-LATEST:]
        return replace(self, over=report.round, seconds=seconds, last=report).now("")


def seconds_left(progress: RunProgress, now: float) -> float | None:
    """An estimate from the latest rounds; None before the first round and after the last."""
    ahead = progress.rounds - progress.over
    if not progress.seconds or ahead <= 0:
        return None
    usual = statistics.median_low(progress.seconds)  # the first round may have waited for clients
    under_way = min(max(now - progress.since, 0.0), usual) if progress.server_round else 0.0
    return usual * ahead - under_way


def in_words(progress: RunProgress) -> str:
    """What the run is doing, as one line."""
    if not progress.server_round:
        return progress.doing
    of = f"/{progress.rounds}" if progress.rounds else ""
    asked = counted(progress.asked, "client")
    return f"round {progress.server_round}{of}: {progress.answered} of {asked} have answered"


class ProgressDisplay:
    """Shows a `RunProgress` until it is closed. A terminal that cannot move its cursor also gets lines."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        """console: standard error unless given. quiet: show nothing."""
        console = console or Console(stderr=True)
        # rich needs ipywidgets to draw in a notebook, and warns without it
        notebook = console.is_jupyter and find_spec("ipywidgets") is not None
        drawn = notebook or (console.is_terminal and not console.is_dumb_terminal)
        self._progress = RunProgress()
        self._console = console
        self._live: Live | None = None  # a new one each time: a stopped one would erase other output
        self._draws = drawn and not quiet
        self._lines = None if quiet or drawn or console.is_jupyter else ProgressLines(console)

    def show(self, progress: RunProgress) -> None:
        self._progress = progress
        if self._draws and self._live is None:
            self._draw()
        if self._lines is not None:
            self._lines.show(progress)

    def left(self) -> str:
        """The time left, for the line of a round; empty if a bar shows it, or if it is only seconds."""
        left = None if self._draws else seconds_left(self._progress, time.time())
        return "" if left is None or left < LEAST_LEFT else f"  about {rough_duration(left)} left"

    def known(self, words: str) -> None:
        """Do not print these words in a pipe."""
        if self._lines is not None:
            self._lines.said.add(words)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Pause drawing, so that other lines may be printed."""
        drawn = self._live is not None
        self._erase()
        yield
        if drawn:
            self._draw()

    def close(self) -> None:
        """Erase what is drawn and stop; the next `show` begins again."""
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


class ProgressLines:
    """A line for each thing that begins, and now and then one for rounds and slow steps.

    A thread prints that a slow step goes on, because the step itself reports nothing.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.said: set[str] = set()
        self._progress = RunProgress()
        self._last, self._when = "", time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, progress: RunProgress) -> None:
        self._progress = progress
        words = in_words(progress)
        if words and not progress.server_round and words not in self.said and self._is_news(words):
            self._say(words, words)
        if self._thread is None:
            self._over.clear()
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()

    def tick(self) -> None:
        """Print what is going on, if it has taken long and nothing was printed meanwhile."""
        progress = self._progress
        words, elapsed = in_words(progress), time.time() - progress.since
        if words and min(time.monotonic() - self._when, elapsed) >= AGAIN_SECONDS:
            self._say(words, f"{words} ({rough_duration(elapsed)})")

    def close(self) -> None:
        """Print nothing more until something is shown again."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            self.tick()

    def _is_news(self, words: str) -> bool:
        soon = time.monotonic() - self._when < COUNT_SECONDS
        return not (soon and _without_numbers(words) == _without_numbers(self._last))

    def _say(self, words: str, line: str) -> None:
        self._last, self._when = words, time.monotonic()
        self.said.add(words)
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _without_numbers(words: str) -> list[str]:
    return [word for word in words.split() if not word.isdigit()]


def rendered(progress: RunProgress, now: float) -> RenderableType:
    """The bars and words to draw. now: Unix time. Text from clients is shown without control characters."""
    table = Table.grid(padding=(0, 1))
    for label, done, total, words in bars(progress, now):
        table.add_row(
            Text(label), ProgressBar(total=total, completed=min(done, total), width=_BAR_WIDTH), Text(words)
        )
    if progress.server_round:
        return table
    elapsed = now - progress.since
    waiting = f" ({rough_duration(elapsed)})" if elapsed >= 2 else ""
    return Group(table, Text(f"{in_words(progress)}{waiting}"))


def bars(progress: RunProgress, now: float) -> list[Bar]:
    found: list[Bar] = []
    if progress.rounds:
        found.append(("rounds", progress.over, progress.rounds, _rounds(progress, now)))
    if progress.server_round:
        found.append(("clients", progress.answered, progress.asked or 1, _clients(progress)))
    if progress.last is not None and progress.budget is not None:
        found += _budgets(progress.last, progress.budget)
    return found


def _rounds(progress: RunProgress, now: float) -> str:
    left = seconds_left(progress, now)
    words = f"{progress.over} of {progress.rounds} done"
    return words if left is None else f"{words}, about {rough_duration(left)} left"


def _clients(progress: RunProgress) -> str:
    asked = counted(progress.asked, "client")
    words = f"round {progress.server_round}: {progress.answered} of {asked} have answered"
    return f"{words}, {progress.speed:,.0f} records/s" if progress.speed else words


def _budgets(report: RoundReport, budget: float) -> list[Bar]:
    """The federation's epsilon, and that of each client's ledger.

    If there are many clients, only the largest, median and least that make up the federation's.
    """
    if not report.private:
        return [("epsilon", 0.0, 1.0, f"{NOT_PRIVATE} (no epsilon holds)")]
    together, each = report.federation, report.clients
    found = [_budget("epsilon", report.epsilon, budget, "in this run")]
    if len(each) <= MOST_CLIENTS:
        return found + [
            _budget(f"  {clean(name, _NAME_WIDTH)}", one.epsilon, one.budget) for name, one in each.items()
        ]
    words = f"of {len(report.counted):,} clients"
    spread = {"largest": together.largest, "median": together.median, "least": together.least}
    return found + [_budget(f"  {name}", value, budget, words) for name, value in spread.items()]


def _budget(label: str, epsilon: float, budget: float, whose: str = "") -> Bar:
    words = f"{rounded_up(epsilon)} of {rounded_up(budget)}"
    return label, min(epsilon, budget), budget, f"{words} {whose}".rstrip()
