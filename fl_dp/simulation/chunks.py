"""Cuts a round's items into chunks: large, so that messages cost little, but so small that no actor waits."""

import sys
from collections import deque
from collections.abc import Iterable, Sequence

from fl_dp.simulation.work import ClientWork, Done

LONGEST_SECONDS = 0.5  # of one chunk, which is lost if a process dies, and awaited when a round ends
SHARE = 2  # a chunk is at most 1 / (SHARE * actors) of what is left, so that all actors end together
REMEMBERED = 0.9  # weight of the speed so far in its moving average


class Chunks:
    """The unassigned items of a round, longest first, cut into chunks on request.

    Chunks are measured in seconds, by the seconds that a record took so far, because clients differ in size.
    An actor gets its next chunk when it is nearly done, so a slow actor gets fewer.
    """

    def __init__(self) -> None:
        self.seconds_per_record = 0.0
        self._waiting: deque[ClientWork] = deque()
        self._records = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, items: Iterable[ClientWork]) -> None:
        together = sorted((*self._waiting, *items), key=_order)
        self._waiting = deque(together)
        self._records = sum(item.records for item in together)

    def take(self, actors: int) -> list[ClientWork]:
        """The next chunk, if `actors` actors share what is left. Groups stay whole.

        At least one item, or one group, if any is left.
        """
        speed = self.seconds_per_record  # 0 until it is measured: one item, or group, at a time
        limit = min(self._records / (SHARE * actors), LONGEST_SECONDS / speed) if speed else 0
        chunk: list[ClientWork] = []
        records = 0
        while self._waiting and self._next_fits(chunk, records, limit):
            chunk.append(self._waiting.popleft())
            records += chunk[-1].records
        self._records -= records
        return chunk

    def _next_fits(self, chunk: Sequence[ClientWork], records: int, limit: float) -> bool:
        following = self._waiting[0]
        same_group = chunk and following.group is not None and chunk[-1].group == following.group
        return not chunk or bool(same_group) or records + following.records <= limit

    def clear(self) -> None:
        self._waiting.clear()

    def learn(self, items: Iterable[ClientWork], done: Iterable[Done]) -> None:
        """Update the speed by how long the items of a chunk took."""
        records = sum(item.records for item in items)
        if not records:
            return
        measured = sum(one.seconds for one in done) / records
        old = self.seconds_per_record
        self.seconds_per_record = REMEMBERED * old + (1 - REMEMBERED) * measured if old else measured

    def seconds(self, items: Iterable[ClientWork]) -> float:
        """How long the items should take one actor; 0 before anything was measured."""
        return self.seconds_per_record * sum(item.records for item in items)


def _order(item: ClientWork) -> tuple[int, int]:
    """Longest first; among equally long ones groups together, and items without a group last."""
    return -item.records, sys.maxsize if item.group is None else item.group
