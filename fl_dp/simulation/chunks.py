"""How much work an actor is handed at a time: so much that talk costs little, so little that nobody waits."""

import sys
from collections import deque
from collections.abc import Iterable, Sequence

from fl_dp.simulation.work import ClientWork, Done

LONGEST_SECONDS = 0.5  # of one chunk: it is what is lost when a process dies, and what others wait for
SHARE = 2  # of what is left: a chunk is at most 1 / (SHARE * actors) of it, so that all end together
REMEMBERED = 0.9  # of the measured speed, at each new measurement


class Chunks:
    """The tasks of a round that no actor has yet, longest first, cut into chunks as they are asked for.

    By measured seconds per record, not by count: clients differ in size. As no actor gets much ahead of
    time, a slow one is handed less, and what it would have been given goes to the others.
    """

    def __init__(self) -> None:
        self.seconds_per_record = 0.0
        self._waiting: deque[ClientWork] = deque()
        self._records = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, tasks: Iterable[ClientWork]) -> None:
        together = sorted((*self._waiting, *tasks), key=_order)
        self._waiting = deque(together)
        self._records = sum(task.records for task in together)

    def take(self, actors: int) -> list[ClientWork]:
        """The next chunk, of whole groups, when `actors` actors share what is left.

        At least one group if there is one.
        """
        speed = self.seconds_per_record  # until it was measured, one task at a time
        limit = min(self._records / (SHARE * actors), LONGEST_SECONDS / speed) if speed else 0
        chunk: list[ClientWork] = []
        records = 0
        while self._waiting and self._goes_along(chunk, records, limit):
            chunk.append(self._waiting.popleft())
            records += chunk[-1].records
        self._records -= records
        return chunk

    def _goes_along(self, chunk: Sequence[ClientWork], records: int, limit: float) -> bool:
        following = self._waiting[0]
        same_group = chunk and following.group is not None and chunk[-1].group == following.group
        return not chunk or bool(same_group) or records + following.records <= limit

    def clear(self) -> list[ClientWork]:
        """Take out all that is left."""
        left = list(self._waiting)
        self._waiting.clear()
        self._records = 0
        return left

    def learn(self, tasks: Iterable[ClientWork], done: Iterable[Done]) -> None:
        """Take in how long the tasks of a chunk took."""
        records = sum(task.records for task in tasks)
        seconds = sum(one.seconds for one in done)
        measured = seconds / records if records else 0.0
        old = self.seconds_per_record
        self.seconds_per_record = REMEMBERED * old + (1 - REMEMBERED) * measured if old else measured

    def seconds(self, tasks: Iterable[ClientWork]) -> float:
        """How long the tasks should take one actor; 0 while nothing was measured."""
        return self.seconds_per_record * sum(task.records for task in tasks)


def _order(task: ClientWork) -> tuple[int, int]:
    """Longest first, groups together, and who has none at the end."""
    return -task.records, sys.maxsize if task.group is None else task.group
