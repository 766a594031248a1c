"""Follows the events of clients on this machine: those that a launch started, or one by its journal."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.errors import LaunchError
from fl_dp.federation.client.journal import NewLines, journal_folder
from fl_dp.federation.client.journal_line import Line, in_words, spent_in_words
from fl_dp.launch.processes.log_tail import JsonLines, tail
from fl_dp.launch.processes.processes import Processes, ended
from fl_dp.reporting.wording import counted

Say = Callable[[str], None]


class ClientWatch:
    """Reports which clients have ended. process: that runs them all; events: the file that they write.

    `look` raises LaunchError when the last client has ended.
    """

    def __init__(
        self,
        processes: Processes,
        process: str,
        log: Path,
        events: Path,
        clients: Collection[str],
        say: Say,
    ) -> None:
        self._processes, self._process, self._log, self._say = processes, process, log, say
        self._lines = JsonLines(events)
        self._alive = set(clients)

    def look(self) -> None:
        for line in self._lines.new():
            if line["what"] == "ended":
                self._alive.discard(line["client"])
                self._say(f"client {line['client']} {line['words']}; going on without it")
        code = self._processes.exit_code(self._process)
        if code is not None or not self._alive:
            how = "have stopped" if code is None else ended(code)
            raise LaunchError(f"Every client has stopped: {how}. The end of {self._log}:\n{tail(self._log)}")


class JournalWatch:
    """Prints each line that is written from now on about this client and its data.

    Lines about other data are skipped: in another federation, another client may have the same name.
    """

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        from fl_dp.federation.client.registration import dataset_name  # late: it brings parts of data

        self._client, self._say = settings.client, say
        self._datasets = "", dataset_name(settings)  # a message may fail before the data are known
        self._journal = NewLines(journal_folder(settings.ledger))
        self._trained = 0  # rounds trained in the current run
        self._last = ""  # the last known spending

    def look(self) -> None:
        """Print what has come since the last look."""
        new = self._journal.new()
        lines = [one for one in new if one.client == self._client and one.dataset in self._datasets]
        for line in lines:
            self._trained += line.event == "trained"
            self._last = spent_in_words(line) or self._last
        for line in _worth_saying(lines):
            self._say(in_words(line))

    def at_the_end(self) -> str:
        """What the finished run came to here; counting then starts again for the next run."""
        self.look()
        rounds, self._trained = self._trained, 0
        what = f"{counted(rounds, 'round')} trained here" if rounds else "nothing was trained here"
        return f"{what} ({self._last})" if self._last else what


def _worth_saying(lines: Sequence[Line]) -> list[Line]:
    """Leave out requests that have been answered since."""
    answered = {line.process for line in lines if line.event != "asked"}
    return [line for line in lines if line.event != "asked" or line.process not in answered]
