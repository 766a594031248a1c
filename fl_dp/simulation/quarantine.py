"""Work items that may have ended their process: each is tried alone, until the culprit is known."""

from collections import deque
from collections.abc import Sequence

from fl_dp.simulation.work import ClientWork

TRIES = 3  # of an item whose process ended while it was the only one in its chunk


class Quarantine:
    """The items that a process worked on when it ended; one of them may be the cause.

    Each waits here to be tried alone; if its process ends again, it was that item. An item stays in
    quarantine until the round is over, even while it is tried.
    """

    def __init__(self) -> None:
        self._waiting: deque[ClientWork] = deque()
        self._deaths: dict[str, int] = {}  # by message: processes that ended while they worked on it alone

    def __len__(self) -> int:
        """The number of items that wait to be tried alone."""
        return len(self._waiting)

    def __contains__(self, item: ClientWork) -> bool:
        return item.message in self._deaths

    def put(self, items: Sequence[ClientWork]) -> list[ClientWork]:
        """A process ended while it worked on `items`. Returns those that were tried TRIES times."""
        given_up: list[ClientWork] = []
        for item in items:
            deaths = self._deaths[item.message] = self._deaths.get(item.message, 0) + (len(items) == 1)
            (self._waiting if deaths < TRIES else given_up).append(item)
        return given_up

    def take(self) -> ClientWork:
        """The next item to try."""
        return self._waiting.popleft()

    def give_up(self) -> None:
        """Try no more items; they stay in quarantine."""
        self._waiting.clear()

    def begin(self) -> None:
        """Begin a new round, with an empty quarantine."""
        self.give_up()
        self._deaths = {}
