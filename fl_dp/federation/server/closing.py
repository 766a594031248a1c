"""When a round is closed that not all who were asked have answered: nobody waits for one site.

A round has a quorum: updates of more than half of those that were asked, and no fewer than the round needs.
The time that the quorum took is the sites' own pace. The others have `grace` times as long again, and LEAST
seconds in any case; one that was asked for more steps than any of the quorum has as much more time, up to
MOST_WORK times. What comes later was paid for and is lost, so the pace is that of a majority, and never of
whoever answers first.

A site that was never asked before in this run has all of round-timeout: its operator may have to be asked,
too, and nobody knows its pace yet. `round-timeout` stays the outermost bound of all of it.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from flwr.app import Message

from fl_dp.federation.server.asking import Asked

logger = logging.getLogger("fl_dp")

MOST_WORK = 10.0  # times the quorum's that a site can have: its declared size is its own word
LEAST = 10.0  # seconds of grace in any case: a machine may be busy, and a lost connection takes as long


class Closing:
    """asked: by message, at its sending. needed: updates of the round. grace: of the run config. new: clients
    that were never asked before.

    is_update: whether a reply counts to the quorum. What only looks like one must not: the sites that train
    would be cut off, having paid, for the pace of one that does not.
    """

    def __init__(
        self,
        asked: Mapping[str, Asked],
        needed: int,
        grace: float,
        is_update: Callable[[Message, Asked], bool],
        new: Collection[str] = (),
    ) -> None:
        self._asked, self._grace, self._began = asked, grace, time.monotonic()
        self._is_update = is_update
        self._quorum = max(len(asked) // 2 + 1, needed)
        self._new = {key for key, one in asked.items() if one.client.name in new}
        self._judged: dict[str, bool] = {}  # by message, whether its reply is an update; each is read once
        self._pace: tuple[float, int] | None = None  # the quorum's seconds, and the most steps in it

    def is_closed(self, replies: Sequence[Message]) -> bool:
        """Whether the round is over with these replies, those that are there by now."""
        waited = time.monotonic() - self._began
        answered = {one.metadata.reply_to_message_id: one for one in replies}
        if self._pace is None:
            for key in answered.keys() - self._judged.keys():
                self._judged[key] = self._is_update(answered[key], self._asked[key])
            updates = [key for key, counts in self._judged.items() if counts]
            if len(updates) < self._quorum:
                return False
            self._pace = waited, max(map(self._steps, updates))
        missing = self._asked.keys() - answered.keys()
        if missing & self._new or any(waited < self._patience(one, *self._pace) for one in missing):
            return False
        logger.info("%d of %d have answered, and grace is over after %.1f s: the round is closed",
                    len(self._asked) - len(missing), len(self._asked), waited)  # fmt: skip
        return True

    def _patience(self, message_id: str, seconds: float, steps: int) -> float:
        """How long after its beginning the round waits for that answer."""
        more = min(max(1.0, self._steps(message_id) / steps), MOST_WORK)
        return max(seconds * (1 + self._grace) * more, seconds + LEAST)

    def _steps(self, message_id: str) -> int:
        return self._asked[message_id].mechanism.steps
