"""Decides what is left of a round and which actor trains what next: an update counts once, or not at all.

Decisions only, without Ray and without a clock; `ActorPool` reports what happens and carries out the calls.
Who trains together is fixed before the round, and the chunks' sums are added in their order. So no bit of the
round's sum depends on which actor trained a chunk, when, or how often it was begun.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from fl_dp.simulation.actor.shared_data import read_only
from fl_dp.simulation.update_sum import add
from fl_dp.simulation.work import Array, ChunkDone, ClientWork, Done

ENDED = "its process ended while it was trained (killed, or out of memory)"
SHARE = 4  # a chunk is at most 1 / (SHARE * actors) of what is left: one that is lost or late costs little


@dataclass(frozen=True, eq=False)
class Call:
    """Items that an actor trains one after the other. chunk: the number of their chunk. alone: it is a single
    item, tried by itself because the process that trained its chunk has ended.
    """

    chunk: int
    items: Sequence[ClientWork]
    alone: bool = False

    def to_send(self) -> Sequence[ClientWork]:
        """The items as an actor gets them. The update of one that is tried alone comes by itself."""
        return [replace(item, weight=None) for item in self.items] if self.alone else self.items


class RoundState:
    """One round after the other, over actors that may be lost at any time. Actor numbers are never reused.

    actors: the calls that each has, in order; it works on the first. done: the results, by message. repeated:
    how many items were started again because an actor was lost.
    """

    def __init__(self) -> None:
        self.actors: dict[int, deque[Call]] = {}
        self._new_round([], 1)

    def _new_round(self, items: Iterable[ClientWork], actors: int) -> None:
        self.done: dict[str, Done] = {}
        self.repeated = 0
        self._chunks = chunks_of(items, actors)
        self._waiting = deque(Call(number, chunk) for number, chunk in enumerate(self._chunks))
        self._finishing = False
        self._total: dict[str, Tensor] = {}
        self._added = 0  # chunks that are in `_total`
        self._sums: dict[int, Mapping[str, Array]] = {}  # of chunks after those
        self._alone: dict[str, Mapping[str, Array]] = {}  # updates of items that were tried alone, by message

    @property
    def is_over(self) -> bool:
        """Whether all items are done, or left out."""
        return not self._waiting and not self._busy()

    def begin(self, items: Iterable[ClientWork], actors: int) -> list[int]:
        """Begin a new round for that many actors, whatever happened to the last one.

        Returns the actors to stop, already removed here: they work on the last round.
        """
        self._new_round(items, actors)
        return self._remove_busy()

    def next_calls(self) -> list[tuple[int, Call]]:
        """The calls to make now, each with its actor. An actor gets its next one while it works.

        But none is queued beside an item that is tried alone: if a process ends in its next call, Ray may
        lose the answer to the one before, and the wrong item would be blamed.
        """
        found = []
        for ahead in (0, 1):
            for actor, calls in self.actors.items():
                if len(calls) > ahead or len(self._waiting) <= ahead * len(self.actors):
                    continue
                if any(call.alone for call in (*calls, self._waiting[0])) and calls:
                    continue
                calls.append(self._waiting.popleft())
                found.append((actor, calls[-1]))
        return found

    def actor_ready(self, actor: int) -> None:
        self.actors[actor] = deque()

    def actor_stopped(self, actor: int) -> None:
        """An actor without calls, or one that was not ready yet, was stopped."""
        self.actors.pop(actor, None)

    def call_done(self, actor: int, result: ChunkDone) -> None:
        """An actor has finished the first of its calls."""
        call = self.actors[actor].popleft()
        for item, one in zip(call.items, result.done, strict=True):
            if call.alone and item.weight is not None and one.arrays is not None:
                self._alone[item.message] = one.arrays
                one = replace(one, arrays=None)
            self.done[item.message] = one
        if result.sum:
            self._sums[call.chunk] = result.sum
        self._add_up(all_that_is_there=False)

    def actor_lost(self, actor: int) -> None:
        """An actor is gone. An item that it worked on may be why: each is tried alone, once."""
        calls = self.actors.pop(actor)
        begun = calls.popleft() if calls else None
        if begun and begun.alone:
            message = begun.items[0].message
            self.done[message] = Done(message, 0.0, ENDED)
        elif begun and not self._finishing:
            calls.extendleft(Call(begun.chunk, [item], alone=True) for item in begun.items)
            self.repeated += len(begun.items)
        if not self._finishing:
            self._waiting.extendleft(reversed(calls))

    def finish(self) -> None:
        """Assign nothing more in this round."""
        self._finishing = True
        self._waiting.clear()

    def stop(self) -> list[int]:
        """End the round with what is done. Returns the actors to stop, already removed here."""
        self.finish()
        return self._remove_busy()

    def sum(self) -> tuple[list[str], dict[str, Array]]:
        """The sum of all updates with a weight that are there, and their messages; once the round is over."""
        self._add_up(all_that_is_there=True)
        items = (item for chunk in self._chunks for item in chunk if item.weight is not None)
        messages = [one.message for one in items if one.message in self.done]
        there = [message for message in messages if not self.done[message].problem]
        return there, {name: total.cpu().numpy() for name, total in self._total.items()}

    def _add_up(self, *, all_that_is_there: bool) -> None:
        """Add the chunks' sums in their order, as soon as those before them are done: they are large."""
        for number in range(self._added, len(self._chunks)):
            items = self._chunks[number]
            if not (all_that_is_there or all(item.message in self.done for item in items)):
                break
            part = _tensors(self._sums.pop(number, {}))
            for item in items:
                if item.message in self._alone and item.weight is not None:
                    add(part, _tensors(self._alone.pop(item.message)), item.weight)
            add(self._total, part)
            self._added = number + 1

    def _busy(self) -> list[int]:
        return [actor for actor, calls in self.actors.items() if calls]

    def _remove_busy(self) -> list[int]:
        busy = self._busy()
        for actor in busy:
            del self.actors[actor]
        return busy


def chunks_of(items: Iterable[ClientWork], actors: int) -> list[list[ClientWork]]:
    """The items, longest first, in chunks: large, so that messages cost little, and small at the end, so that
    all actors end together.
    """
    waiting = deque(sorted(items, key=lambda item: -item.records))
    left, chunks = sum(item.records for item in waiting), []
    while waiting:
        most, chunk = left / (SHARE * actors), [waiting.popleft()]
        left -= (records := chunk[0].records)
        while waiting and records + waiting[0].records <= most:
            chunk.append(waiting.popleft())
            records += chunk[-1].records
            left -= chunk[-1].records
        chunks.append(chunk)
    return chunks


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    return {name: read_only(array) for name, array in arrays.items()}
