"""A server that writes down how long each round waited: for clients, and for their answers.

Runs as `python -m benchmarks.soak.server TIMES WORD...`, with the words of `fl-dp server`.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.soak.clock import sleep_by_select

sleep_by_select()

from fl_dp.cli.main import main as fl_dp_main  # noqa: E402
from fl_dp.federation.server import strategy  # noqa: E402
from fl_dp.federation.server.registration import Registration  # noqa: E402


def main() -> None:
    times = Path(sys.argv.pop(1))
    line: dict[str, Any] = {}
    gather, here, receive = Registration.gather, Registration._here, strategy.receive
    enough = math.inf

    def watched(self: Registration) -> Any:
        nonlocal enough
        found = here(self)
        if len(found) >= self._config.min_clients:
            enough = min(enough, time.monotonic())
        return found

    def gathered(self: Registration, grid: Any) -> Any:
        nonlocal enough
        begun, enough = time.monotonic(), math.inf
        able = gather(self, grid)
        now = time.monotonic()
        line.update(round=self._round, first=self._first, gathered=now - begun, longer=now - enough)
        return able

    def received(grid: Any, waiting: Any, timeout: float, is_closed: Any) -> Any:
        begun, closing = time.monotonic(), is_closed.__self__
        replies = receive(grid, waiting, timeout, is_closed)
        seconds = time.monotonic() - begun
        is_closed(replies)  # else the last ones are not counted where all have answered
        line.update(
            asked=len(waiting),
            answers=len(replies),
            updates=sum(closing._judged.values()),
            seconds=seconds,
            new=len(closing._new),
            quorum=closing._quorum,
            pace=closing._pace and closing._pace[0],
        )
        with times.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return replies

    Registration.gather, Registration._here = gathered, watched  # type: ignore[method-assign]
    strategy.receive = received
    fl_dp_main()


if __name__ == "__main__":
    main()
