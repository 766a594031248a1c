"""How far a run is, in a pipe: a line for all that is begun, and for what takes long another now and then."""

import threading
import time

from rich.console import Console

from fl_dp.reporting.run_progress import RunProgress, in_words
from fl_dp.reporting.wording import rough_duration

AGAIN_SECONDS = 30.0  # for so long nothing is said of the same thing
COUNT_SECONDS = 1.0  # between two lines that differ in a number alone
TICK_SECONDS = 1.0


class ProgressLines:
    """Each thing that is done is said once; a round only if it takes long.

    A thread says that something goes on still, because what takes long tells nothing itself.
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
        """Say what goes on, if it has gone on for long and nothing was said meanwhile."""
        progress = self._progress
        words, elapsed = in_words(progress), time.time() - progress.since
        if words and min(time.monotonic() - self._when, elapsed) >= AGAIN_SECONDS:
            self._say(words, f"{words} ({rough_duration(elapsed)})")

    def close(self) -> None:
        """Say nothing more, until something is shown again."""
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
