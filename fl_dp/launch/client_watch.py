"""What clients on this machine tell during a run: those that a launch started, or one by its journal."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from fl_dp.config.client import ClientConfig
from fl_dp.errors import LaunchError
from fl_dp.federation.client.journal import NewLines, journal_folder
from fl_dp.federation.client.journal_line import Line
from fl_dp.federation.client.journal_words import in_words, spent_in_words
from fl_dp.launch.processes.log_tail import JsonLines, tail
from fl_dp.launch.processes.processes import Processes, ended
from fl_dp.reporting.wording import counted

Say = Callable[[str], None]


class ClientWatch:
    """Says which clients have ended. process: that they were all started as; events: where they tell.

    `look` raises LaunchError when the last of them has ended.
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
    """Says each line that is written from now on, of this client and its data alone: in another federation
    another client may have its name.
    """

    def __init__(self, settings: ClientConfig, say: Say) -> None:
        from fl_dp.federation.client.registration import dataset_name  # late: it brings parts of data

        self._client, self._say = settings.client, say
        self._datasets = "", dataset_name(settings)  # a message may fail before the data are known
        self._journal = NewLines(journal_folder(settings.ledger))
        self._trained = 0  # of the run that goes on
        self._last = ""  # what was spent when it was last looked up

    def look(self) -> None:
        """Say what has come since the last look."""
        new = self._journal.new()
        lines = [one for one in new if one.client == self._client and one.dataset in self._datasets]
        for line in lines:
            self._trained += line.event == "trained"
            self._last = spent_in_words(line) or self._last
        for line in _worth_saying(lines):
            self._say(in_words(line))

    def at_the_end(self) -> str:
        """What the run that is over came to here; from then on the next one counts."""
        self.look()
        rounds, self._trained = self._trained, 0
        what = f"{counted(rounds, 'round')} trained here" if rounds else "nothing was trained here"
        return f"{what} ({self._last})" if self._last else what


def _worth_saying(lines: Sequence[Line]) -> list[Line]:
    """Without the questions that are answered by now."""
    answered = {line.process for line in lines if line.event != "asked"}
    return [line for line in lines if line.event != "asked" or line.process not in answered]
