"""A small round for `test_round_state`: the state machine, and beside it the actors as they really are.

A `Situation` offers the events that can happen next, and lets one of them happen. What it asserts is what
one event must do; what must be true in every situation stands in the test.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fl_dp.records import RoundPlan
from fl_dp.simulation.round_state import ENDED, ActorItems, Assign, Chunks, FetchSum, RoundState
from fl_dp.simulation.work import ClientWork, Done

PLAN = RoundPlan("run", 1, "linear", 2, 8, 0.5, 0.0, 1.0, 1.0)
HANGS = "took too long"
ANY = 7  # `repeated` before an event: only by how much it grows is looked at


class FixedChunks(Chunks):
    """Chunks of one size, whatever is measured."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def take(self, actors: int) -> list[ClientWork]:
        return [self._waiting.popleft() for _ in range(min(self._size, len(self)))]

    def learn(self, items: Iterable[ClientWork], done: Iterable[Done]) -> None: ...


@dataclass(frozen=True)
class Setup:
    """actors, faults, rounds: how many. items: of the first round; a second one has half as many.

    The first item may fail by itself, whenever it is trained; the last one's update is wanted alone.
    """

    actors: int
    items: int
    chunk: int
    faults: int
    rounds: int = 2


@cache
def tasks_of(setup: Setup, number: int) -> tuple[ClientWork, ...]:
    """Those of a round, in the order of their names, which are the same in each round."""
    count = setup.items if number == 1 else -(-setup.items // 2)
    return tuple(
        ClientWork(name, name, k, PLAN, 2, 0.1, None if 0 < k == count - 1 else 1.0)
        for k, name in enumerate("abcdef"[:count])
    )


@dataclass
class RealActor:
    """What an actor really has: chunks, in order, and whose updates are in its sum."""

    queue: list[tuple[ClientWork, ...]] = field(default_factory=list)
    total: list[str] = field(default_factory=list)


@dataclass
class Situation:
    """A state, the actors as they really are, and what an onlooker knows of the round.

    fetching: actors whose sums are asked for and have not come yet. fetched: whose updates were in the sums.
    suspected: who was in a chunk whose process ended; accused: of them, who was not trained since.
    """

    setup: Setup
    state: RoundState
    items: tuple[ClientWork, ...]
    faults: int
    round: int = 1
    real: dict[int, RealActor] = field(default_factory=dict)
    fetching: list[int] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    accused: set[str] = field(default_factory=set)
    suspected: set[str] = field(default_factory=set)
    finishing: bool = False

    # What may happen next

    def events(self) -> Iterator[tuple[str, int]]:
        if self.fetching:
            yield "fetched", self.fetching[0]
            if self.faults:
                yield "lost", self.fetching[0]
            return
        for actor, one in self.real.items():
            if one.queue:
                yield "done", actor
                if any(item.part == 0 for item in one.queue[0]):
                    yield "done, one failed", actor
            if self.faults:
                yield "lost", actor
                if one.queue:
                    yield "hangs", actor
        if len(self.real) < self.setup.actors:
            yield "ready", max(self.real, default=-1) + 1
        if not self.finishing:
            yield "finish", -1
        yield "stop", -1
        free = (actor for actor, one in self.real.items() if not one.queue and not one.total)
        yield from (("stopped", actor) for actor in free)
        if self.round < self.setup.rounds:
            yield "begin", -1

    def happen(self, event: str, actor: int) -> None:
        """Report the event, and carry out what the state machine decides then."""
        repeated = 0
        if event == "fetched":
            self.fetch(actor)
        elif event.startswith("done"):
            self.train(actor, fails=event != "done")
        elif event in ("lost", "hangs"):
            repeated = self.lose(actor, hangs=event == "hangs")
        elif event == "ready":
            self.real[actor] = RealActor()
            self.state.actor_ready(actor)
        elif event == "stopped":
            del self.real[actor]
            self.state.actor_stopped(actor)
        elif event == "finish":
            self.finishing = True
            self.state.finish()
        elif event == "stop":
            self.stop()
        else:
            self.begin()
        assert self.state.repeated == (0 if event == "begin" else ANY + repeated)
        self.carry_out()

    def fetch(self, actor: int) -> None:
        self.fetching.remove(actor)
        one = self.real[actor]
        assert not one.queue, "items are trained while the sum is fetched: are they in it?"
        assert sorted(self.state.sum_fetched(actor)) == sorted(one.total)
        self.fetched += one.total
        one.total = []

    def train(self, actor: int, *, fails: bool) -> None:
        one = self.real[actor]
        chunk = one.queue.pop(0)
        failed = {item.message for item in chunk if fails and item.part == 0}
        one.total += [item.message for item in chunk if item.weight and item.message not in failed]
        self.accused -= {item.message for item in chunk}
        self.state.chunk_done(actor, [Done(t.message, 1.0, "raised" * (t.message in failed)) for t in chunk])

    def lose(self, actor: int, *, hangs: bool) -> int:
        """Returns how many items have to be begun again."""
        self.faults -= 1
        one = self.real.pop(actor)
        if actor in self.fetching:
            self.fetching.remove(actor)
        begun = [item.message for item in one.queue[0]] if one.queue else []
        failed = set()
        if hangs:
            self.state.actor_hangs(actor, HANGS, 60.0)
            failed = {message for message in begun if len(begun) == 1}
        else:
            self.state.actor_lost(actor)
            failed = {message for message in begun if len(begun) == 1 and message in self.suspected}
        self.suspected |= set(begun) if not hangs or len(begun) > 1 else set()
        self.accused = self.accused.union(begun) - failed
        for message in begun:
            failure = Done(message, 60.0, HANGS) if hangs and len(begun) == 1 else Done(message, 0.0, ENDED)
            assert (message in self.state.done) == (message in failed)
            assert message not in failed or self.state.done[message] == failure
        return 0 if self.finishing else len(begun) - len(failed) + len(one.total)

    def stop(self) -> None:
        busy = [actor for actor, one in self.real.items() if one.queue]
        self.finishing = True
        assert self.state.stop() == busy
        for actor in busy:
            del self.real[actor]
        assert not any(has.chunks for has in self.state.actors.values())

    def begin(self) -> None:
        taken = [actor for actor, one in self.real.items() if one.queue or one.total]
        self.round += 1
        self.items = tasks_of(self.setup, self.round)
        self.fetched, self.finishing = [], False
        self.accused, self.suspected = set(), set()
        assert self.state.begin(self.items) == taken
        for actor in taken:
            del self.real[actor]

    def carry_out(self) -> None:
        """What is to be done now. That a sum has arrived is an event of its own."""
        if self.fetching:
            return
        waiting, quarantined = len(self.state.waiting), len(self.state.quarantine)
        left = waiting
        busy = any(one.queue for one in self.real.values())
        for step in self.state.next_steps():
            one = self.real[step.actor]
            if isinstance(step, Assign):
                assert not self.finishing, "begun after the round's last start"
                assert 0 < len(step.items) <= self.setup.chunk
                assert not one.queue or left > len(self.real), "the last items are not for who is at work"
                one.queue.append(tuple(step.items))
                left -= 0 if step.items[0].message in self.accused else len(step.items)
            else:
                assert isinstance(step, FetchSum)
                assert one.total, "there is nothing to fetch"
                assert not one.queue
                assert not waiting, "more could be added to the sum first"
                self.fetching.append(step.actor)
        if busy or quarantined:
            assert len(self.fetching) <= quarantined, "a sum is fetched for nobody"
        assert self.fetching or not self.state.next_steps(), "asked again, there is more to do"

    def undone(self) -> Iterator[ClientWork]:
        yield from self.state.waiting._waiting
        yield from self.state.quarantine._waiting
        for has in self.state.actors.values():
            for chunk in has.chunks:
                yield from chunk

    # Copies: values that can be compared, and what they were made of

    def frozen(self) -> Any:
        """All that decides what can happen from here on. Actors are numbered anew, in their order."""
        numbers = {actor: k for k, actor in enumerate(self.real)}
        waiting, quarantine = self.state.waiting, self.state.quarantine
        return (
            self.round,
            self.faults,
            self.finishing,
            messages(waiting._waiting),
            (messages(quarantine._waiting), frozenset(quarantine._tried)),
            tuple((tuple(map(messages, one.queue)), tuple(one.total)) for one in self.real.values()),
            frozenset((message, done.problem) for message, done in self.state.done.items()),
            tuple(numbers[actor] for actor in self.fetching),
            frozenset(self.fetched),
            (frozenset(self.accused), frozenset(self.suspected)),
        )


def messages(items: Iterable[ClientWork]) -> tuple[str, ...]:
    return tuple(item.message for item in items)


def thawed(setup: Setup, frozen: Any) -> Situation:
    number, faults, finishing, waiting, (queue, tried), actors, done, fetching, fetched, onlooker = frozen
    of = {item.message: item for item in tasks_of(setup, number)}
    state = RoundState(waiting=FixedChunks(setup.chunk), repeated=ANY, finishing=finishing)
    state.waiting._waiting.extend(of[message] for message in waiting)
    state.quarantine._waiting.extend(of[message] for message in queue)
    state.quarantine._tried.update(tried)
    state.done = {message: Done(message, 1.0, problem) for message, problem in done}
    real = {}
    for k, (chunks, total) in enumerate(actors):
        queue = [tuple(of[message] for message in chunk) for chunk in chunks]
        real[k] = RealActor(queue, list(total))
        state.actors[k] = ActorItems(deque(map(list, queue)), [of[message] for message in total])
    accused, suspected = onlooker
    return Situation(
        setup, state, tuple(of.values()), faults, number, real, list(fetching), list(fetched),
        set(accused), set(suspected), finishing,
    )  # fmt: skip
