"""The state of each work item in a round, and what to do next: every update counts once, or not at all.

Decisions only, without Ray and without a clock. `ActorPool` reports events, asks for the next steps, and
carries them out. `tests/simulation/test_round_state.py` walks through all possible events.

    waiting -----> assigned -----> summed -----> fetched      `summed`: the update is in an actor's sum and,
       ^            |  |  |           |                       until that is fetched, lost with the actor
       |            |  |  +-> failed  |
       |            |  v              |                       an actor is lost: the chunk that it worked on is
       |            | quarantined     |                       quarantined; its other chunks, and the items in
       +------------+-----------------+                       its sum, wait again

A quarantined item is assigned alone. If the round ends early, items that wait or are lost are left out.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from fl_dp.simulation.work import ClientWork, Done

ENDED = "its process ended while it was trained (killed, or out of memory)"
LONGEST_SECONDS = 0.5  # of one chunk, which is lost if a process dies, and awaited when a round ends
SHARE = 2  # a chunk is at most 1 / (SHARE * actors) of what is left, so that all actors end together
REMEMBERED = 0.9  # weight of the speed so far in its moving average


class Chunks:
    """The unassigned items of a round, longest first, cut into chunks on request.

    Chunks are large, so that messages cost little, but so small that no actor waits.
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
        self._waiting = deque(sorted((*self._waiting, *items), key=lambda item: -item.records))
        self._records = sum(item.records for item in self._waiting)

    def take(self, actors: int) -> list[ClientWork]:
        """The next chunk, if `actors` actors share what is left: at least one item, if any is left."""
        speed = self.seconds_per_record  # 0 until it is measured: one item at a time
        limit = min(self._records / (SHARE * actors), LONGEST_SECONDS / speed) if speed else 0
        chunk: list[ClientWork] = []
        records = 0
        while self._waiting and (not chunk or records + self._waiting[0].records <= limit):
            chunk.append(self._waiting.popleft())
            records += chunk[-1].records
        self._records -= records
        return chunk

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


class Quarantine:
    """The items that a process worked on when it ended; one of them may be the cause.

    Each waits here to be tried alone, once; if its process ends again, it was that item. An item stays in
    quarantine until the round is over, even while it is tried.
    """

    def __init__(self) -> None:
        self._waiting: deque[ClientWork] = deque()
        self._tried: set[str] = set()  # by message

    def __len__(self) -> int:
        """The number of items that wait to be tried alone."""
        return len(self._waiting)

    def __contains__(self, item: ClientWork) -> bool:
        return item.message in self._tried

    def put(self, items: Sequence[ClientWork]) -> list[ClientWork]:
        """A process ended while it worked on `items`. Returns the one that was tried alone before."""
        if len(items) == 1 and items[0] in self:
            return [*items]
        self._waiting.extend(items)
        self._tried.update(item.message for item in items)
        return []

    def take(self) -> ClientWork:
        """The next item to try."""
        return self._waiting.popleft()

    def give_up(self) -> None:
        """Try no more items; they stay in quarantine."""
        self._waiting.clear()

    def begin(self) -> None:
        """Begin a new round, with an empty quarantine."""
        self.give_up()
        self._tried.clear()


@dataclass(frozen=True, slots=True)
class Assign:
    """Let the actor train these items after those that it already has."""

    actor: int
    items: Sequence[ClientWork]


@dataclass(frozen=True, slots=True)
class FetchSum:
    """Fetch the actor's sum, and report `sum_fetched` or `actor_lost`."""

    actor: int


Step = Assign | FetchSum


@dataclass(slots=True)
class ActorItems:
    """An actor's items. chunks: assigned, in order; it works on the first. summed: those in its sum."""

    chunks: deque[list[ClientWork]] = field(default_factory=deque)
    summed: list[ClientWork] = field(default_factory=list)

    @property
    def is_free(self) -> bool:
        """Whether losing the actor would lose nothing of the round."""
        return not self.chunks and not self.summed


@dataclass
class RoundState:
    """One round after the other, over actors that may be lost at any time. Actor numbers are never reused.

    done: by message, the result of an item; removed if the item's sum is lost. repeated: how often an item
    had to be started again because an actor was lost. finishing: nothing more is assigned.
    """

    waiting: Chunks = field(default_factory=Chunks)
    quarantine: Quarantine = field(default_factory=Quarantine)
    actors: dict[int, ActorItems] = field(default_factory=dict)
    done: dict[str, Done] = field(default_factory=dict)
    repeated: int = 0
    finishing: bool = False

    @property
    def is_over(self) -> bool:
        """Whether all items are fetched, failed, or left out."""
        return self._is_idle and not any(has.summed for has in self.actors.values())

    def next_steps(self) -> list[Step]:
        """What to do now; if there is nothing, wait for an event. Items in it count as assigned from now on.

        Carry out all steps, then ask again: a fetched or lost sum may allow more steps.
        """
        if self._is_idle:
            return [FetchSum(actor) for actor, has in self.actors.items() if has.summed]
        return self._quarantined_steps() + self._chunk_steps()

    def begin(self, items: Iterable[ClientWork]) -> list[int]:
        """Begin a new round, whatever happened to the last one.

        Returns the actors to stop, already removed here: they work on the last round, or hold a sum of it.
        """
        stopped = self._take_out([actor for actor, has in self.actors.items() if not has.is_free])
        self.done, self.repeated, self.finishing = {}, 0, False
        self.quarantine.begin()
        self.waiting.clear()
        self.waiting.put(items)
        return list(stopped)

    def actor_ready(self, actor: int) -> None:
        """A new actor is ready for items."""
        self.actors[actor] = ActorItems()

    def chunk_done(self, actor: int, results: Sequence[Done]) -> None:
        """An actor has finished the first of its chunks."""
        has = self.actors[actor]
        items = has.chunks.popleft()
        self.waiting.learn(items, results)
        for item, result in zip(items, results, strict=True):
            self.done[item.message] = result
            if item.weight is not None and not result.problem:
                has.summed.append(item)

    def sum_fetched(self, actor: int) -> list[str]:
        """An actor's sum has arrived, and the actor begins a new one. Returns the messages answered by it."""
        has = self.actors[actor]
        messages, has.summed = [item.message for item in has.summed], []
        return messages

    def actor_lost(self, actor: int) -> None:
        """An actor is gone. An item that it worked on may be why: each is tried alone, or has failed."""
        chunks = self.actors[actor].chunks
        begun = chunks.popleft() if chunks else []
        failed = self.quarantine.put(begun)
        self.done |= {item.message: Done(item.message, 0.0, ENDED) for item in failed}
        self._put_back(actor, begun_again=len(begun) - len(failed))

    def actor_hangs(self, actor: int, problem: str, seconds: float) -> None:
        """An actor was stopped because it hung. If it worked on a single item, that item has failed."""
        chunks = self.actors[actor].chunks
        if len(chunks[0]) > 1:
            self.actor_lost(actor)
            return
        (item,) = chunks.popleft()
        self.done[item.message] = Done(item.message, seconds, problem)
        self._put_back(actor)

    def actor_stopped(self, actor: int) -> None:
        """An actor, free or not ready yet, was stopped."""
        self.actors.pop(actor, None)

    def finish(self) -> None:
        """Assign nothing more in this round."""
        self.finishing = True
        self._leave_out_the_rest()

    def stop(self) -> list[int]:
        """End the round with the sums that can be fetched at once: those of actors without assigned items.

        Returns the actors to stop, already removed here; their items are left out.
        """
        self.finish()
        stopped = self._take_out([actor for actor, has in self.actors.items() if has.chunks])
        for has in stopped.values():
            self._forget(has.summed)
        return list(stopped)

    @property
    def _is_idle(self) -> bool:
        return not (self.waiting or self.quarantine or any(has.chunks for has in self.actors.values()))

    def _quarantined_steps(self) -> list[Step]:
        """Each item alone, on an actor without a sum. If no other item waits, a sum is fetched first."""
        free = (
            (actor, has)
            for actor, has in self.actors.items()
            if not has.chunks and not (has.summed and self.waiting)
        )
        return [
            FetchSum(actor) if has.summed else self._assign(actor, [self.quarantine.take()])
            for actor, has in islice(free, len(self.quarantine))
        ]

    def _chunk_steps(self) -> list[Step]:
        """A chunk for each actor that has none; then a second one, but not behind a quarantined item."""
        steps: list[Step] = []
        for ahead in (0, 1):
            for actor, has in self.actors.items():
                enough = len(self.waiting) > ahead * len(self.actors)
                if enough and len(has.chunks) <= ahead and not self._tries_quarantined(has):
                    steps.append(self._assign(actor, self.waiting.take(len(self.actors))))
        return steps

    def _tries_quarantined(self, has: ActorItems) -> bool:
        return any(item in self.quarantine for chunk in has.chunks for item in chunk)

    def _assign(self, actor: int, items: list[ClientWork]) -> Assign:
        self.actors[actor].chunks.append(items)
        return Assign(actor, items)

    def _put_back(self, actor: int, begun_again: int = 0) -> None:
        """Remove an actor; its items wait again, unless the round is finishing."""
        has = self.actors.pop(actor)
        self._forget(has.summed)
        self.waiting.put([*(item for chunk in has.chunks for item in chunk), *has.summed])
        if self.finishing:
            self._leave_out_the_rest()
        else:
            self.repeated += begun_again + len(has.summed)

    def _leave_out_the_rest(self) -> None:
        self.waiting.clear()
        self.quarantine.give_up()

    def _forget(self, items: Iterable[ClientWork]) -> None:
        for item in items:
            del self.done[item.message]

    def _take_out(self, actors: Iterable[int]) -> dict[int, ActorItems]:
        return {actor: self.actors.pop(actor) for actor in actors}
