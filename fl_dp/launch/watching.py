"""Hears what the clients that were started here tell, while a run goes on."""

from collections.abc import Callable, Collection
from pathlib import Path

from fl_dp.errors import LaunchError
from fl_dp.launch.processes.log_tail import JsonLines, tail
from fl_dp.launch.processes.processes import Processes, ended


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
        say: Callable[[str], None],
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
