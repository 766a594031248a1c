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
    gather, here, ask = Registration.gather, Registration._here, strategy.ask
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

    def asked(grid: Any, questions: Any, seconds: float, is_closed: Any) -> Any:
        begun, closing, answers = time.monotonic(), is_closed.__self__, 0
        for answer in ask(grid, questions, seconds, is_closed):
            yield answer
            answers += 1
        waited = time.monotonic() - begun
        is_closed((), waited)  # else there is no pace where all have answered at once
        line.update(
            asked=len(questions),
            answers=answers,
            updates=sum(closing._judged.values()),
            seconds=waited,
            new=len(closing._new),
            quorum=max(len(questions) // 2 + 1, closing._needed),
            pace=closing._pace and closing._pace[0],
        )
        with times.open("a") as file:
            file.write(json.dumps(line) + "\n")

    Registration.gather, Registration._here = gathered, watched  # type: ignore[method-assign]
    strategy.ask = asked
    fl_dp_main()


if __name__ == "__main__":
    main()
