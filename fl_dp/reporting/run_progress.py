"""The progress of a run as a value."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from fl_dp.reporting.wording import counted

LATEST = 5  # rounds from which the remaining time is estimated


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run.

    doing: in words, while no round is under way. rounds: planned; 0: not known yet. budget: epsilon of the
    run config; None: no run. over: number of finished rounds. server_round: the current one, or 0; of the
    clients that it has `asked`, so many have `answered`. speed: records a second, 0 if not known.
    since: when the round, or the current work, began, Unix time. seconds: of the latest rounds. last: the
    record of the last round.
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
    last: Mapping[str, Any] | None = None

    def now(self, doing: str) -> Self:
        """No round is under way; the run is doing this."""
        if doing == self.doing and not self.server_round:
            return self
        return replace(self, doing=doing, server_round=0, asked=0, answered=0, speed=0.0, since=time.time())

    def in_round(self, server_round: int, asked: int) -> Self:
        """A round has begun."""
        return replace(
            self, doing="", server_round=server_round, asked=asked, answered=0, speed=0.0, since=time.time()
        )

    def after(self, record: Mapping[str, Any]) -> Self:
        """A round is over, with this record."""
        seconds = (*self.seconds, float(record["seconds"]))[-LATEST:]
        return replace(self, over=record["round"], seconds=seconds, last=record).now("")


def seconds_left(progress: RunProgress, now: float) -> float | None:
    """An estimate, as if all rounds took as long as the latest; None before the first, and after the last."""
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
