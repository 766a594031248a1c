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
from fl_dp.federation.wire.messages import REFUSAL  # noqa: E402


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
        begun, updates = time.monotonic(), []

        def looked_at(replies: Any) -> bool:
            found = sum(one.has_content() and REFUSAL not in one.content for one in replies)
            updates.extend([time.monotonic() - begun] * (found - len(updates)))
            return bool(is_closed(replies))

        replies = receive(grid, waiting, timeout, looked_at)
        looked_at(replies)
        line.update(
            asked=len(waiting), answers=len(replies), updates=updates, seconds=time.monotonic() - begun,
            new=len(is_closed.__self__._new), quorum=is_closed.__self__._quorum,
        )  # fmt: skip
        with times.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return replies

    Registration.gather, Registration._here = gathered, watched  # type: ignore[method-assign]
    strategy.receive = received
    fl_dp_main()


if __name__ == "__main__":
    main()
